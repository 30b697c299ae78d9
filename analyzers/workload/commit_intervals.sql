-- question: How long is it from one flush of the device's cache to the next?
-- grain: one row per role and log-linear bucket of intervals; flushes and preflushes as queued
-- reads: requests
-- parameter: octave_bits (bits, 0 to 16, default 3): 2^bits buckets an octave
-- column: role: role of the flushes
-- column: low_ns, high_ns: smallest interval of the bucket and of the next one
-- column: interval_count: intervals in the bucket
-- column: smaller_ratio: share of the role's intervals in this bucket or a lower one
with times as (
    select
        role,
        interval_ns as value
    from flush_intervals()
),

commit_intervals as (
    select
        role,
        low as low_ns,
        high as high_ns,
        value_count as interval_count,
        smaller_ratio
    from distribution_of(times, $octave_bits)
)

select *
from commit_intervals
order by role, low_ns
