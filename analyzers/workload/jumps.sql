-- question: How far does each role's traffic jump between one request and the next?
-- grain: one row per device, role, operation and bucket of distances (reads and writes as queued)
-- reads: requests
-- parameter: octave_bits (bits, 0 to 16, default 0): 2^bits buckets an octave
-- column: device: whole device or volume
-- column: role: role of the requests
-- column: operation: read or write
-- column: is_backward: the request begins before the end of the one before it
-- column: low_sectors, high_sectors: first distance of the bucket and of the next one, in 512-byte
-- sectors from the end of one request to the begin of the next; 0 is sequential
-- column: request_count: requests that jumped so far
with streams as materialized (
    select * from numbered_streams()
),

distances as (
    select
        streams.stream_number,
        requests.sector - lag(requests.sector + requests.length_bytes // 512) over (
            partition by streams.stream_number order by requests.request_id
        ) as jump_sectors
    from requests
    inner join streams
        on
            requests.device = streams.device
            and requests.role = streams.role
            and requests.operation = streams.operation
    where requests.length_bytes > 0
),

buckets as (
    select
        stream_number,
        jump_sectors < 0 as is_backward,
        log_bucket(abs(jump_sectors), $octave_bits) as bucket,
        count(*) as request_count
    from distances
    where jump_sectors is not null
    group by all
),

jumps as (
    select
        streams.device,
        streams.role,
        streams.operation,
        buckets.is_backward,
        log_bucket_low(buckets.bucket, $octave_bits) as low_sectors,
        log_bucket_low(buckets.bucket + 1, $octave_bits) as high_sectors,
        buckets.request_count
    from buckets
    inner join streams on buckets.stream_number = streams.stream_number
)

select *
from jumps
order by device, role, operation, is_backward, low_sectors
