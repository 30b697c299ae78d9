-- question: How long did the requests of each replay take when they were traced?
-- grain: one row per replay, role and operation; requests that the replay has done
-- reads: requests, completions
-- parameter: octave_bits (bits, 0 to 16, default 7): 2^bits buckets an octave hold the times
-- column: replay: name of the replay
-- column: role, operation: of the requests
-- column: request_count: requests with a completion in the trace
-- column: time_avg_ns: from issue to completion (D2C), from the queueing where no issue was seen
-- column: time_p50_ns, time_p99_ns: nearest rank, as the largest time of its bucket
-- column: first_ns, last_ns: when the first of them was queued and the last completed
with done as (
    select distinct
        completions.replay,
        requests.request_id,
        requests.role,
        requests.operation,
        requests.queue_ns,
        requests.complete_ns,
        requests.complete_ns - coalesce(requests.issue_ns, requests.queue_ns) as value
    from completions
    inner join requests on completions.request_id = requests.request_id
    where completions.status = 'done' and requests.merged_into is null and value >= 0
),

times as (
    select
        replay,
        role,
        operation,
        value
    from done
),

spans as (
    select
        replay,
        role,
        operation,
        min(queue_ns) as first_ns,
        max(complete_ns) as last_ns
    from done
    group by all
),

traced as (
    select
        spans.replay,
        spans.role,
        spans.operation,
        times.value_count as request_count,
        times.value_avg as time_avg_ns,
        times.value_p50 as time_p50_ns,
        times.value_p99 as time_p99_ns,
        spans.first_ns,
        spans.last_ns
    from spans
    inner join percentiles_of(times, $octave_bits) as times
        on
            spans.replay = times.replay
            and spans.role = times.role
            and spans.operation = times.operation
)

select *
from traced
order by replay, role, operation
