-- question: How many requests do the sequential runs of each role have?
-- grain: one row per device, role, operation and power of two of requests in a run
-- reads: requests
-- counted: request_runs
-- column: device, role, operation: of the requests
-- column: low_requests: fewest requests of the runs counted here; the most are 2 * low_requests - 1
-- column: run_count: runs
-- column: request_count: requests of these runs
with run_lengths as (
    select
        device,
        role,
        coalesce(operation, 'unknown') as operation,
        log_bucket_low(log_bucket(bucket_min, 0), 0) as low_requests,
        sum(bucket_count)::bigint as run_count,
        sum(bucket_sum)::bigint as request_count
    from request_runs
    group by all
)

select *
from run_lengths
order by device, role, operation, low_requests
