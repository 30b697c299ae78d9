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
        stream_number,
        jump_sectors < 0 as is_backward,
        abs(jump_sectors) as value
    from jumps_of(streams)
),

jumps as (
    select
        streams.device,
        streams.role,
        streams.operation,
        distribution.is_backward,
        distribution.low as low_sectors,
        distribution.high as high_sectors,
        distribution.value_count as request_count
    from distribution_of(distances, $octave_bits) as distribution
    inner join streams on distribution.stream_number = streams.stream_number
)

select *
from jumps
order by device, role, operation, is_backward, low_sectors
