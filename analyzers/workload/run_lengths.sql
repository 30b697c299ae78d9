-- question: How many requests do the sequential runs of each role have?
-- grain: one row per device, role, operation and power of two of requests in a run
-- reads: requests
-- column: device: whole device or volume
-- column: role: role of the requests
-- column: operation: read or write
-- column: low_requests: fewest requests of the runs counted here; the most are 2 * low_requests - 1
-- column: run_count: runs
-- column: request_count: requests of these runs
with stream as (
    select
        requests.device,
        requests.role,
        requests.operation,
        row_number() over by_stream as place,
        count(*) over (partition by requests.device, requests.role, requests.operation)
            as last_place,
        coalesce(
            requests.sector
            <> lag(requests.sector + requests.length_bytes // 512) over by_stream,
            true
        ) as is_first
    from requests
    where requests.operation in ('read', 'write') and requests.length_bytes > 0
    window by_stream as (
        partition by requests.device, requests.role, requests.operation
        order by requests.request_id
    )
),

runs as (
    select
        stream.device,
        stream.role,
        stream.operation,
        lead(stream.place, 1, stream.last_place + 1) over (
            partition by stream.device, stream.role, stream.operation order by stream.place
        ) - stream.place as run_requests
    from stream
    where stream.is_first
),

run_lengths as (
    select
        runs.device,
        runs.role,
        runs.operation,
        log_bucket_low(log_bucket(runs.run_requests, 0), 0) as low_requests,
        count(*) as run_count,
        sum(runs.run_requests)::bigint as request_count
    from runs
    group by all
)

select *
from run_lengths
order by device, role, operation, low_requests
