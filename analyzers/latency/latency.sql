-- question: How long does each step of a request's path take, by role, operation and preflush?
-- grain: one row per step, role, operation and is_preflush; requests as queued
-- reads: requests
-- counted: request_times
-- parameter: octave_bits (bits, 0 to 16, default 7): 2^bits buckets an octave hold the latencies
-- column: step: q2g, g2i, q2m, i2d, m2d, q2d, d2c, q2c or wait, as in the view steps
-- column: role, operation: of the requests
-- column: is_preflush: the request flushes the device's cache before its data
-- column: request_count: requests that took the step
-- column: latency_min_ns, latency_avg_ns, latency_max_ns: exact
-- column: latency_p50_ns, latency_p90_ns, latency_p99_ns, latency_p999_ns: nearest rank, as the
-- largest latency of its bucket
with times as (
    select
        step,
        role,
        operation,
        is_preflush,
        bucket_count,
        bucket_sum,
        bucket_min,
        bucket_max
    from request_times
),

latency as (
    select
        step,
        role,
        operation,
        is_preflush,
        value_count as request_count,
        value_min as latency_min_ns,
        value_avg as latency_avg_ns,
        value_p50 as latency_p50_ns,
        value_p90 as latency_p90_ns,
        value_p99 as latency_p99_ns,
        value_p999 as latency_p999_ns,
        value_max as latency_max_ns
    from merged_percentiles_of(times, $octave_bits)
)

select *
from latency
order by step, role, operation, is_preflush
