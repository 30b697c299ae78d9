-- question: How much of each role's traffic is sequential, and how long are its runs?
-- grain: one row per device, role and operation (reads and writes as queued)
-- reads: requests
-- counted: request_runs
-- column: device: whole device or volume
-- column: role: role of the requests
-- column: operation: read or write
-- column: request_count: requests
-- column: sequential_count: requests that begin where the one before them in their row ended
-- column: sequential_ratio: share of these requests
-- column: run_count: runs of requests that follow each other without a jump
-- column: run_avg_requests: requests of a run
with runs as (
    select
        device,
        role,
        coalesce(operation, 'unknown') as operation,
        sum(bucket_sum)::bigint as request_count,
        sum(bucket_count)::bigint as run_count
    from request_runs
    group by all
),

sequentiality as (
    select
        device,
        role,
        operation,
        request_count,
        request_count - run_count as sequential_count,
        sequential_count / request_count as sequential_ratio,
        run_count,
        request_count / run_count as run_avg_requests
    from runs
)

select *
from sequentiality
order by device, role, operation
