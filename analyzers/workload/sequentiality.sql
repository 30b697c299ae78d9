-- question: How much of each role's traffic is sequential, and how long are its runs?
-- grain: one row per device, role and operation (reads and writes as queued)
-- reads: requests
-- column: device: whole device or volume
-- column: role: role of the requests
-- column: operation: read or write
-- column: request_count: requests
-- column: sequential_count: requests that begin where the one before them in their row ended
-- column: sequential_ratio: share of these requests
-- column: run_count: runs of requests that follow each other without a jump
-- column: run_avg_requests: requests of a run
with stream as (
    select
        requests.device,
        requests.role,
        requests.operation,
        requests.sector = lag(requests.sector + requests.length_bytes // 512) over (
            partition by requests.device, requests.role, requests.operation
            order by requests.request_id
        ) as is_sequential
    from requests
    where requests.operation in ('read', 'write') and requests.length_bytes > 0
),

counted as (
    select
        stream.device,
        stream.role,
        stream.operation,
        count(*) as request_count,
        count(*) filter (where stream.is_sequential) as sequential_count
    from stream
    group by all
),

sequentiality as (
    select
        counted.*,
        counted.sequential_count / counted.request_count as sequential_ratio,
        counted.request_count - counted.sequential_count as run_count,
        counted.request_count / (counted.request_count - counted.sequential_count)
            as run_avg_requests
    from counted
)

select *
from sequentiality
order by device, role, operation
