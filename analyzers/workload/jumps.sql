-- question: How far does each role's traffic jump between one request and the next?
-- grain: one row per device, role, operation and bucket of distances (reads and writes as queued)
-- reads: requests
-- counted: request_jumps
-- parameter: octave_bits (bits, 0 to 16, default 0): 2^bits buckets an octave
-- column: device: whole device or volume
-- column: role: role of the requests
-- column: operation: read or write
-- column: is_backward: the request begins before the end of the one before it
-- column: low_sectors, high_sectors: first distance of the bucket and of the next one, in 512-byte
-- sectors from the end of one request to the begin of the next; 0 is sequential
-- column: request_count: requests that jumped so far
with distances as (
    select
        device,
        role,
        coalesce(operation, 'unknown') as operation,
        is_backward,
        bucket_count,
        bucket_min
    from request_jumps
),

jumps as (
    select
        device,
        role,
        operation,
        is_backward,
        low as low_sectors,
        high as high_sectors,
        value_count as request_count
    from merged_distribution_of(distances, $octave_bits)
)

select *
from jumps
order by device, role, operation, is_backward, low_sectors
