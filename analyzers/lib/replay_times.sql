-- question: How late was each replayed request, and how long did it take?
-- grain: a view; one row per replay, request that was done and measure
-- reads: requests, completions
-- column: replay: name of the replay
-- column: request_id, role, operation: of the request
-- column: measure: late (intended to submitted), service (submitted to completed), response
-- (intended to completed) or traced (issued, or else queued, to completed in the trace)
-- column: time_ns: the time; 0 for what was handed over, or even done, before it was due
create view replay_times as
with done as (
    select
        completions.replay,
        completions.request_id,
        requests.role,
        requests.operation,
        case
            when completions.intended_ns is not null
                then greatest(completions.submit_ns - completions.intended_ns, 0)
        end as late,
        completions.complete_ns - completions.submit_ns as service,
        case
            when completions.intended_ns is not null
                then greatest(completions.complete_ns - completions.intended_ns, 0)
        end as response,
        case
            when requests.merged_into is null
                then requests.complete_ns - coalesce(requests.issue_ns, requests.queue_ns)
        end as traced
    from completions
    inner join requests on completions.request_id = requests.request_id
    where completions.status = 'done'
)

unpivot done
on late, service, response, traced
into name measure value time_ns;
