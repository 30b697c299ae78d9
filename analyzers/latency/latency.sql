-- question: How long does each step of a request's way take, by role, operation and preflush?
-- grain: one row per step, role, operation and is_preflush; requests as queued
-- reads: requests
-- parameter: octave_bits (bits, 0 to 16, default 7): 2^bits buckets an octave hold the latencies
-- column: step: q2g, g2i, q2m, i2d, m2d, q2d, d2c, q2c or wait, as in the view steps
-- column: role, operation: of the requests
-- column: is_preflush: the request flushes the device's cache before its data
-- column: request_count: requests that took the step
-- column: latency_min_ns, latency_avg_ns, latency_max_ns: exact
-- column: latency_p50_ns, latency_p90_ns, latency_p99_ns, latency_p999_ns: nearest rank, as the
-- largest latency of its bucket
with buckets as (
    select
        step,
        role,
        operation,
        is_preflush,
        log_bucket(latency_ns, $octave_bits) as bucket,
        count(*) as bucket_count,
        sum(latency_ns) as sum_ns,
        min(latency_ns) as min_ns,
        max(latency_ns) as max_ns
    from steps
    group by all
),

ranked as (
    select
        buckets.*,
        sum(bucket_count) over (
            partition by step, role, operation, is_preflush order by bucket
        ) as upto_count,
        sum(bucket_count) over (partition by step, role, operation, is_preflush) as total_count
    from buckets
),

latency as (
    select
        step,
        role,
        operation,
        is_preflush,
        sum(bucket_count)::bigint as request_count,
        min(min_ns) as latency_min_ns,
        sum(sum_ns) / sum(bucket_count) as latency_avg_ns,
        min(max_ns) filter (where upto_count >= 0.5 * total_count) as latency_p50_ns,
        min(max_ns) filter (where upto_count >= 0.9 * total_count) as latency_p90_ns,
        min(max_ns) filter (where upto_count >= 0.99 * total_count) as latency_p99_ns,
        min(max_ns) filter (where upto_count >= 0.999 * total_count) as latency_p999_ns,
        max(max_ns) as latency_max_ns
    from ranked
    group by all
)

select *
from latency
order by step, role, operation, is_preflush
