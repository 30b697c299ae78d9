-- question: How long is it from one flush of the device's cache to the next?
-- grain: one row per role and log-linear bucket of intervals; flushes and preflushes as queued
-- reads: requests
-- parameter: octave_bits (bits, 0 to 16, default 3): 2^bits buckets an octave
-- column: role: role of the flushes
-- column: low_ns, high_ns: smallest interval of the bucket and of the next one
-- column: interval_count: intervals in the bucket
-- column: smaller_ratio: share of the role's intervals in this bucket or a lower one
with intervals as (
    select
        requests.role,
        requests.queue_ns - lag(requests.queue_ns) over (
            partition by requests.role order by requests.request_id
        ) as interval_ns
    from requests
    where requests.queue_ns is not null and (requests.operation = 'flush' or requests.is_preflush)
),

buckets as (
    select
        intervals.role,
        log_bucket(intervals.interval_ns, $octave_bits) as bucket,
        count(*) as interval_count
    from intervals
    where intervals.interval_ns is not null
    group by all
),

histogram as (
    select
        buckets.role,
        log_bucket_low(buckets.bucket, $octave_bits) as low_ns,
        log_bucket_low(buckets.bucket + 1, $octave_bits) as high_ns,
        buckets.interval_count,
        sum(buckets.interval_count) over by_length / sum(buckets.interval_count) over whole
            as smaller_ratio
    from buckets
    window
        by_length as (partition by buckets.role order by buckets.bucket rows unbounded preceding),
        whole as (partition by buckets.role)
)

select *
from histogram
order by role, low_ns
