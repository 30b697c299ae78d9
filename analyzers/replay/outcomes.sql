-- question: What became of the requests that each replay was given?
-- grain: one row per replay, status and operation
-- reads: requests, completions
-- counted: replay_outcomes
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
        replay,
        status,
        operation,
        sum(bucket_count) filter (where measure = 'has_error')::bigint as request_count,
        coalesce(sum(bucket_sum) filter (where measure = 'has_error'), 0)::bigint as error_count,
        min(bucket_min) filter (where measure = 'intended_ns') as first_ns,
        max(bucket_max) filter (where measure = 'intended_ns') as last_ns,
        max(bucket_max) filter (where measure = 'complete_ns') as complete_ns
    from replay_outcomes
    group by all
)

select *
from outcomes
order by replay, status, operation
