-- question: How late was each replay, and how long did its requests take?
-- grain: one row per replay, measure, role and operation; requests that were done
-- reads: requests, completions
-- parameter: octave_bits (bits, 0 to 16, default 7): 2^bits buckets an octave hold the times
-- column: replay: name of the replay
-- column: measure: late (intended to submitted), service (submitted to completed) or response
-- (intended to completed)
-- column: role, operation: of the requests
-- column: request_count: requests
-- column: time_avg_ns, time_max_ns: exact
-- column: time_p50_ns, time_p99_ns: nearest rank, as the largest time of its bucket
with buckets as (
    select
        replay,
        measure,
        role,
        operation,
        log_bucket(time_ns, $octave_bits) as bucket,
        count(*) as bucket_count,
        sum(time_ns) as sum_ns,
        max(time_ns) as max_ns
    from replay_times
    group by all
),

ranked as (
    select
        buckets.*,
        sum(bucket_count) over (
            partition by replay, measure, role, operation order by bucket
        ) as upto_count,
        sum(bucket_count) over (partition by replay, measure, role, operation) as total_count
    from buckets
),

replayed as (
    select
        replay,
        measure,
        role,
        operation,
        sum(bucket_count)::bigint as request_count,
        sum(sum_ns) / sum(bucket_count) as time_avg_ns,
        min(max_ns) filter (where upto_count >= 0.5 * total_count) as time_p50_ns,
        min(max_ns) filter (where upto_count >= 0.99 * total_count) as time_p99_ns,
        max(max_ns) as time_max_ns
    from ranked
    group by all
)

select *
from replayed
order by replay, measure, role, operation
