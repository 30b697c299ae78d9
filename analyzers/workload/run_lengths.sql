-- question: How many requests do the sequential runs of each role have?
-- grain: one row per device, role, operation and power of two of requests in a run
-- reads: requests
-- column: device, role, operation: of the requests
-- column: low_requests: fewest requests of the runs counted here; the most are 2 * low_requests - 1
-- column: run_count: runs
-- column: request_count: requests of these runs
with streams as materialized (
    select * from numbered_streams()
),

runs as (
    select
        stream_number,
        lead(place, 1, request_count + 1) over (partition by stream_number order by place)
        - place as run_requests
    from jumps_of(streams)
    where jump_sectors is distinct from 0
),

counted as (
    select
        stream_number,
        log_bucket_low(log_bucket(run_requests, 0), 0) as low_requests,
        count(*) as run_count,
        sum(run_requests)::bigint as request_count
    from runs
    group by all
),

run_lengths as (
    select
        streams.device,
        streams.role,
        streams.operation,
        counted.* exclude (stream_number)
    from counted
    inner join streams on counted.stream_number = streams.stream_number
)

select *
from run_lengths
order by device, role, operation, low_requests
