-- question: How are the times of each step of a request's path distributed?
-- grain: one row per step, role, operation and log-linear bucket of latencies; requests as queued
-- reads: requests
-- counted: request_times
-- parameter: octave_bits (bits, 0 to 16, default 3): 2^bits buckets an octave
-- column: step: q2g, g2i, q2m, i2d, m2d, q2d, d2c, q2c or wait, as in the view steps
-- column: role, operation: of the requests
-- column: low_ns, high_ns: smallest latency of the bucket and of the next one
-- column: request_count: requests in the bucket
-- column: smaller_ratio: share of the requests of the step, role and operation in this bucket or a
-- lower one
with times as (
    select
        step,
        role,
        operation,
        bucket_count,
        bucket_min
    from request_times
),

distribution as (
    select
        step,
        role,
        operation,
        low as low_ns,
        high as high_ns,
        value_count as request_count,
        smaller_ratio
    from merged_distribution_of(times, $octave_bits)
)

select *
from distribution
order by step, role, operation, low_ns
