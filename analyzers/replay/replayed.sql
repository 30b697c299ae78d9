-- question: How late was each replay, and how long did its requests take?
-- grain: one row per replay, measure, role and operation; requests that were done
-- reads: requests, completions
-- counted: replay_measures
-- parameter: octave_bits (bits, 0 to 16, default 7): 2^bits buckets an octave hold the times
-- column: replay: name of the replay
-- column: measure: late (intended to submitted), service (submitted to completed), response
-- (intended to completed) or traced (issued, or else queued, to completed in the trace)
-- column: role, operation: of the requests
-- column: request_count: requests
-- column: time_avg_ns, time_max_ns: exact
-- column: time_p50_ns, time_p99_ns: nearest rank, as the largest time of its bucket
with times as (
    select
        replay,
        measure,
        role,
        operation,
        bucket_count,
        bucket_sum,
        bucket_min,
        bucket_max
    from replay_measures
),

replayed as (
    select
        replay,
        measure,
        role,
        operation,
        value_count as request_count,
        value_avg as time_avg_ns,
        value_p50 as time_p50_ns,
        value_p99 as time_p99_ns,
        value_max as time_max_ns
    from merged_percentiles_of(times, $octave_bits)
)

select *
from replayed
order by replay, measure, role, operation
