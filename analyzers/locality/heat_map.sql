-- question: Which addresses are read and written when?
-- grain: one row per device, window of time, part of the touched address range and role
-- reads: requests
-- parameter: window_count (windows, 1 to 10000, default 120): equal parts of the trace
-- parameter: part_count (parts, 1 to 10000, default 96): equal parts of each device's touched range
-- column: device: whole device or volume
-- column: window_number: number of the window, from 0
-- column: window_ns: its start
-- column: window_length_ns: its length
-- column: part_number: number of the part, from 0
-- column: part_sector: its first sector
-- column: part_sectors: its length
-- column: role: role of the requests
-- column: read_count, write_count: requests queued in the window whose first sector is in the part
-- column: read_bytes, write_bytes: bytes of these requests
with transfers as not materialized (
    select
        device,
        role,
        sector,
        length_bytes,
        operation = 'write' as is_write,
        coalesce(queue_ns, issue_ns, complete_ns) as arrival_ns
    from requests
    where operation in ('read', 'write') and length_bytes > 0
),

clock as (
    select max(arrival_ns) // $window_count + 1 as window_length_ns
    from transfers
),

ranges as (
    select
        device,
        min(sector) as low_sector,
        (max(sector) - min(sector)) // $part_count + 1 as part_sectors
    from transfers
    group by device
),

heat_map as (
    select
        transfers.device,
        transfers.arrival_ns // clock.window_length_ns as window_number,
        window_number * clock.window_length_ns as window_ns,
        clock.window_length_ns,
        (transfers.sector - ranges.low_sector) // ranges.part_sectors as part_number,
        ranges.low_sector + part_number * ranges.part_sectors as part_sector,
        ranges.part_sectors,
        transfers.role,
        count(*) filter (where not is_write) as read_count,
        count(*) filter (where is_write) as write_count,
        coalesce(sum(length_bytes) filter (where not is_write), 0)::bigint as read_bytes,
        coalesce(sum(length_bytes) filter (where is_write), 0)::bigint as write_bytes
    from transfers
    inner join ranges on transfers.device = ranges.device
    cross join clock
    group by all
)

select *
from heat_map
order by device, window_number, part_number, role
