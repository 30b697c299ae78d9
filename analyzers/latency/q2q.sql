-- question: How long is it from one request to the next of the same role, operation and preflush?
-- grain: one row per role, operation and is_preflush, in the columns of `latency`; as queued
-- reads: requests
-- counted: request_gaps
-- parameter: octave_bits (bits, 0 to 16, default 7): 2^bits buckets an octave hold the gaps
-- column: step: q2q
-- column: role, operation, is_preflush: of both requests
-- column: request_count: gaps
-- column: latency_min_ns, latency_avg_ns, latency_max_ns: exact
-- column: latency_p50_ns, latency_p90_ns, latency_p99_ns, latency_p999_ns: by log_bucket
with gaps as (
    select
        role,
        operation,
        is_preflush,
        bucket_count,
        bucket_sum,
        bucket_min,
        bucket_max
    from request_gaps
    where gap = 'of_kind'
),

q2q as (
    select
        'q2q' as step,
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
    from merged_percentiles_of(gaps, $octave_bits)
)

select *
from q2q
order by role, operation, is_preflush
