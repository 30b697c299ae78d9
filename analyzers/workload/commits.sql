-- question: How often does each role flush the device's cache, and how much does it write between?
-- grain: one row per role; a flush is a flush request or a write with preflush, as queued
-- reads: requests
-- counted: request_gaps
-- column: role: role of the requests
-- column: flush_count: flushes
-- column: fua_count: writes with forced unit access
-- column: write_count, write_bytes: writes
-- column: write_bytes_per_flush: write_bytes to one flush
-- column: interval_min_ns, interval_avg_ns, interval_max_ns: from one flush of the role to its next
with marked as not materialized (
    select
        role,
        is_fua,
        operation = 'flush' or is_preflush as is_flush,
        operation = 'write' as is_write,
        length_bytes
    from requests
),

traffic as (
    select
        role,
        count(*) filter (where is_flush) as flush_count,
        count(*) filter (where is_fua) as fua_count,
        count(*) filter (where is_write) as write_count,
        coalesce(sum(length_bytes) filter (where is_write), 0)::bigint as write_bytes
    from marked
    group by role
),

intervals as (
    select
        role,
        min(bucket_min) as interval_min_ns,
        sum(bucket_sum)::hugeint / sum(bucket_count) as interval_avg_ns,
        max(bucket_max) as interval_max_ns
    from request_gaps
    where gap = 'of_flush'
    group by role
),

commits as (
    select
        traffic.*,
        traffic.write_bytes / nullif(traffic.flush_count, 0) as write_bytes_per_flush,
        intervals.interval_min_ns,
        intervals.interval_avg_ns,
        intervals.interval_max_ns
    from traffic
    left join intervals on traffic.role = intervals.role
)

select *
from commits
order by role
