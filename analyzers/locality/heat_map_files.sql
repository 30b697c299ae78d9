-- question: Which files have the most requests in each part of the touched addresses?
-- grain: one row per device, part of the touched address range and one of its first files
-- reads: requests, file_extents
-- parameter: part_count (parts, 1 to 10000, default 96): equal parts, as in heat_map
-- parameter: file_count (files, 1 to 1000, default 10): how many of each part
-- column: device: whole device or volume
-- column: part_number: number of the part, from 0
-- column: path: the file
-- column: request_count: reads and writes of the file whose first sector is in the part
with transfers as (
    select
        device,
        sector
    from requests
    where operation in ('read', 'write') and length_bytes > 0
),

ranges as (
    select
        device,
        min(sector) as low_sector,
        (max(sector) - min(sector)) // $part_count + 1 as part_sectors
    from transfers
    group by device
),

counts as (
    select
        requests.device,
        (requests.sector - ranges.low_sector) // ranges.part_sectors as part_number,
        files_of_requests.path,
        count(*) as request_count
    from files_of_requests
    inner join requests on files_of_requests.request_id = requests.request_id
    inner join ranges on requests.device = ranges.device
    where
        requests.operation in ('read', 'write')
        and requests.length_bytes > 0
        and files_of_requests.path is not null
    group by all
),

heat_map_files as (
    select *
    from counts
    qualify row_number() over (
        partition by device, part_number
        order by request_count desc, path asc
    ) <= $file_count
)

select *
from heat_map_files
order by device asc, part_number asc, request_count desc, path asc
