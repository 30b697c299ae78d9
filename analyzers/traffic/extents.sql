-- question: How much is read and written in each extent, by window of time and role?
-- grain: one row per window, device, extent and role with traffic; requests are counted as queued
-- reads: requests
-- parameter: extent_sectors (sectors, 8 to 1099511627776, default 2097152): length of an extent
-- parameter: window_ns (nanoseconds, 1 to 9223372036854775807, default 7200000000000): of a window
-- column: window_number: number of the window, from 0
-- column: device: whole device or volume
-- column: extent: number of the extent, from the start of the device
-- column: role: role of the requests
-- column: read_bytes, write_bytes: bytes of the requests that lie in the extent
-- column: read_count, write_count: requests that begin in the extent
with transfers as (
    select
        coalesce(queue_ns, issue_ns, complete_ns, 0) // $window_ns as window_number,
        device,
        role,
        operation = 'write' as is_write,
        sector * sector_bytes() as first_byte,
        sector * sector_bytes() + length_bytes as end_byte,
        sector // $extent_sectors as first_extent,
        (sector * sector_bytes() + length_bytes - 1)
        // ($extent_sectors::bigint * sector_bytes()) as last_extent
    from requests
    where
        operation in ('read', 'write')
        and is_possible(sector, length_bytes)
),

pieces as (
    select
        *,
        unnest(range(first_extent, last_extent + 1)) as extent,
        least(end_byte, (extent + 1) * $extent_sectors * sector_bytes())
        - greatest(first_byte, extent * $extent_sectors * sector_bytes()) as piece_bytes
    from transfers
),

extents as (
    select
        window_number,
        device,
        extent,
        role,
        coalesce(sum(piece_bytes) filter (where not is_write), 0)::bigint as read_bytes,
        coalesce(sum(piece_bytes) filter (where is_write), 0)::bigint as write_bytes,
        count(*) filter (where not is_write and extent = first_extent) as read_count,
        count(*) filter (where is_write and extent = first_extent) as write_count
    from pieces
    group by window_number, device, extent, role
)

select *
from extents
order by window_number, device, extent, role
