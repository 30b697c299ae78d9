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
with stream as (
    select
        requests.device,
        requests.role,
        requests.operation,
        requests.sector - lag(requests.sector + requests.length_bytes // 512) over (
            partition by requests.device, requests.role, requests.operation
            order by requests.request_id
        ) as jump_sectors
    from requests
    where requests.operation in ('read', 'write') and requests.length_bytes > 0
),

buckets as (
    select
        stream.device,
        stream.role,
        stream.operation,
        stream.jump_sectors < 0 as is_backward,
        log_bucket(abs(stream.jump_sectors), $octave_bits) as bucket,
        count(*) as request_count
    from stream
    where stream.jump_sectors is not null
    group by all
),

jumps as (
    select
        buckets.device,
        buckets.role,
        buckets.operation,
        buckets.is_backward,
        log_bucket_low(buckets.bucket, $octave_bits) as low_sectors,
        log_bucket_low(buckets.bucket + 1, $octave_bits) as high_sectors,
        buckets.request_count
    from buckets
)

select *
from jumps
order by device, role, operation, is_backward, low_sectors
