-- question: Which processes queue the most requests, and of what kind?
-- grain: one row per process (null where its name is unknown), role and operation
-- reads: requests
-- parameter: process_count (processes, 1 to 100000, default 20): how many of the busiest are shown
-- column: process: name of the process that queued the requests
-- column: process_rank: 1 for the process with the most requests
-- column: role: role of the requests
-- column: operation: operation
-- column: request_count: requests as queued
-- column: request_bytes: bytes asked for
-- column: flush_count: of these requests, the ones that flush the cache: flushes and preflushes
with traffic as (
    select
        requests.process,
        requests.role,
        coalesce(requests.operation, 'unknown') as operation,
        count(*) as request_count,
        sum(requests.length_bytes)::bigint as request_bytes,
        count(*) filter (where requests.operation = 'flush' or requests.is_preflush)
            as flush_count
    from requests
    group by all
),

summed as (
    select
        traffic.process,
        sum(traffic.request_count) as request_count,
        sum(traffic.request_bytes) as request_bytes
    from traffic
    group by traffic.process
),

ranked as (
    select
        summed.process,
        row_number() over (
            order by
                summed.request_count desc, summed.request_bytes desc, summed.process asc nulls last
        ) as process_rank
    from summed
),

busiest as (
    select
        traffic.process,
        ranked.process_rank,
        traffic.role,
        traffic.operation,
        traffic.request_count,
        traffic.request_bytes,
        traffic.flush_count
    from traffic
    inner join ranked on traffic.process is not distinct from ranked.process
    where ranked.process_rank <= $process_count
)

select *
from busiest
order by process_rank, role, operation
