-- question: How long is it from one flush of the device's cache to the next?
-- grain: one row per role and log-linear bucket of intervals; flushes and preflushes as queued
-- reads: requests
-- counted: request_gaps
-- parameter: octave_bits (bits, 0 to 16, default 3): 2^bits buckets an octave
-- column: role: role of the flushes
-- column: low_ns, high_ns: smallest interval of the bucket and of the next one
-- column: interval_count: intervals in the bucket
-- column: smaller_ratio: share of the role's intervals in this bucket or a lower one
with times as (
    select
        role,
        bucket_count,
        bucket_min
    from request_gaps
    where gap = 'of_flush'
),

commit_intervals as (
    select
        role,
        low as low_ns,
        high as high_ns,
        value_count as interval_count,
        smaller_ratio
    from merged_distribution_of(times, $octave_bits)
)

select *
from commit_intervals
order by role, low_ns
