-- question: Which control groups is the I/O of, delayed writes with it?
-- grain: one row per control group (null where the capture does not say), role and operation
-- reads: requests
-- parameter: cgroup_count (groups, 1 to 100000, default 20): how many of the busiest are shown
-- column: cgroup: path of the group; '#' and its number where it was gone before anybody looked
-- column: cgroup_rank: 1 for the group with the most bytes
-- column: role: role of the requests
-- column: operation: operation
-- column: request_count: requests as queued
-- column: request_bytes: bytes asked for
-- column: writeback_bytes: of these bytes, those that a thread of the kernel queued for the group
-- column: response_ns: from queue to completion, added up over the requests that have both
with by_process as (
    select
        requests.cgroup,
        requests.role,
        coalesce(requests.operation, 'unknown') as operation,
        requests.process,
        count(*) as request_count,
        sum(requests.length_bytes) as request_bytes,
        sum(requests.complete_ns - requests.queue_ns) as response_ns
    from requests
    group by all
),

traffic as (
    select
        by_process.cgroup,
        by_process.role,
        by_process.operation,
        sum(by_process.request_count)::bigint as request_count,
        sum(by_process.request_bytes)::bigint as request_bytes,
        coalesce(
            sum(by_process.request_bytes) filter (
                where regexp_matches(by_process.process, '^(kworker|flush-|kswapd|kdamond)')
            ), 0
        )::bigint as writeback_bytes,
        coalesce(sum(by_process.response_ns), 0)::bigint as response_ns
    from by_process
    group by by_process.cgroup, by_process.role, by_process.operation
),

summed as (
    select
        traffic.cgroup,
        sum(traffic.request_count) as request_count,
        sum(traffic.request_bytes) as request_bytes
    from traffic
    group by traffic.cgroup
),

ranked as (
    select
        summed.cgroup,
        row_number() over (
            order by
                summed.request_bytes desc, summed.request_count desc, summed.cgroup asc nulls last
        ) as cgroup_rank
    from summed
),

busiest as (
    select
        traffic.cgroup,
        ranked.cgroup_rank,
        traffic.role,
        traffic.operation,
        traffic.request_count,
        traffic.request_bytes,
        traffic.writeback_bytes,
        traffic.response_ns
    from traffic
    inner join ranked on traffic.cgroup is not distinct from ranked.cgroup
    where ranked.cgroup_rank <= $cgroup_count
)

select *
from busiest
order by cgroup_rank, role, operation
