-- question: How often does each role flush the device's cache, and how much does it write between?
-- grain: one row per role; a flush is a flush request or a write with preflush, as queued
-- reads: requests
-- column: role: role of the requests
-- column: flush_count: flushes
-- column: fua_count: writes with forced unit access
-- column: write_count, write_bytes: writes
-- column: write_bytes_per_flush: write_bytes to one flush
-- column: interval_min_ns, interval_avg_ns, interval_max_ns: from one flush of the role to its next
with marked as not materialized (
    select
        requests.role,
        requests.is_fua,
        requests.operation = 'flush' or requests.is_preflush as is_flush,
        requests.operation = 'write' as is_write,
        requests.length_bytes,
        requests.queue_ns,
        requests.request_id
    from requests
),

traffic as (
    select
        marked.role,
        count(*) filter (where marked.is_flush) as flush_count,
        count(*) filter (where marked.is_fua) as fua_count,
        count(*) filter (where marked.is_write) as write_count,
        coalesce(sum(marked.length_bytes) filter (where marked.is_write), 0)::bigint as write_bytes
    from marked
    group by marked.role
),

intervals as (
    select
        marked.role,
        marked.queue_ns - lag(marked.queue_ns) over (
            partition by marked.role order by marked.request_id
        ) as interval_ns
    from marked
    where marked.is_flush and marked.queue_ns is not null
),

commits as (
    select
        traffic.*,
        traffic.write_bytes / nullif(traffic.flush_count, 0) as write_bytes_per_flush,
        min(intervals.interval_ns) as interval_min_ns,
        avg(intervals.interval_ns) as interval_avg_ns,
        max(intervals.interval_ns) as interval_max_ns
    from traffic
    left join intervals on traffic.role = intervals.role
    group by all
)

select *
from commits
order by role
