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
with streams as materialized (
    select * from numbered_streams()
),

counted as (
    select
        stream_number,
        count(*) filter (where jump_sectors = 0) as sequential_count
    from jumps_of(streams)
    group by stream_number
),

sequentiality as (
    select
        streams.* exclude (stream_number),
        sequential_count,
        sequential_count / request_count as sequential_ratio,
        request_count - sequential_count as run_count,
        request_count / (request_count - sequential_count) as run_avg_requests
    from counted
    inner join streams on counted.stream_number = streams.stream_number
)

select *
from sequentiality
order by device, role, operation
