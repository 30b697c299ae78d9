-- question: What became of the requests that each replay was given?
-- grain: one row per replay, status and operation
-- reads: requests, completions
-- column: replay: name of the replay
-- column: status: done, skipped, dropped or failed
-- column: operation: of the requests
-- column: request_count: requests
-- column: error_count: of these, requests that ended with an error
-- column: first_ns, last_ns: when the first and the last of them should have been issued, from the
-- start of the run
-- column: complete_ns: when the last of them was completed, from the start of the run
with outcomes as (
    select
        completions.replay,
        completions.status,
        requests.operation,
        count(*) as request_count,
        count(*) filter (where completions.error != 0) as error_count,
        min(completions.intended_ns) as first_ns,
        max(completions.intended_ns) as last_ns,
        max(completions.complete_ns) as complete_ns
    from completions
    left join requests on completions.request_id = requests.request_id
    group by all
)

select *
from outcomes
order by replay, status, operation
