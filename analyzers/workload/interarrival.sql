-- question: How long is it from one request of a role to its next?
-- grain: one row per role and log-linear bucket of gaps between requests as queued
-- reads: requests
-- parameter: octave_bits (bits, 0 to 16, default 3): 2^bits buckets an octave
-- column: role: role of both requests
-- column: low_ns: smallest gap of the bucket
-- column: high_ns: smallest gap of the next bucket
-- column: gap_count: gaps in the bucket
-- column: smaller_ratio: share of the role's gaps in this bucket or a lower one
with buckets as (
    select
        gaps.role,
        log_bucket(gaps.gap_ns, $octave_bits) as bucket,
        count(*) as gap_count
    from gaps
    group by all
),

histogram as (
    select
        buckets.role,
        log_bucket_low(buckets.bucket, $octave_bits) as low_ns,
        log_bucket_low(buckets.bucket + 1, $octave_bits) as high_ns,
        buckets.gap_count,
        sum(buckets.gap_count) over by_gap / sum(buckets.gap_count) over whole as smaller_ratio
    from buckets
    window
        by_gap as (partition by buckets.role order by buckets.bucket rows unbounded preceding),
        whole as (partition by buckets.role)
)

select *
from histogram
order by role, low_ns
