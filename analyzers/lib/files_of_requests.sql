-- question: Which file is each request for?
-- grain: a view; one row per request as queued
-- reads: requests, file_extents
-- column: request_id, device, role: of the request
-- column: path: the file, null where it is not known or there are several
-- column: file_sector: where in the file the request begins
-- column: log: database whose log the file is
-- column: state: as in file_extents; earlier: queued before the file had it; none: no file has it
create view files_of_requests as
with placed as (
    select
        requests.request_id,
        requests.device,
        requests.role,
        requests.queue_ns,
        requests.sector as first_sector,
        requests.sector + (greatest(requests.length_bytes, 1) - 1) // sector_bytes() as last_sector,
        requests.length_bytes > 0 as has_place
    from requests
),

found as (
    select
        placed.*,
        owner.path as owner_path,
        owner.log as owner_log,
        owner.state as owner_state,
        owner.from_ns as owner_ns,
        owner.file_sector + placed.first_sector - owner.first_sector as owner_sector,
        placed.has_place
        and placed.first_sector < owner.first_sector + owner.sectors as has_owner,
        placed.last_sector < last_owner.first_sector + last_owner.sectors
        and last_owner.path = owner.path as is_whole
    from placed
    asof left join file_extents as owner
        on placed.device = owner.device and placed.first_sector >= owner.first_sector
    asof left join file_extents as last_owner
        on placed.device = last_owner.device and placed.last_sector >= last_owner.first_sector
),

judged as (
    select
        found.*,
        case
            when not coalesce(has_owner, false) then 'none'
            when owner_path is not null and not coalesce(is_whole, false) then 'shared'
            when owner_ns > coalesce(queue_ns, 0) then 'earlier'
            else owner_state
        end as state
    from found
)

select
    request_id,
    device,
    role,
    case when state = owner_state then owner_path end as path,
    case when state = owner_state then owner_sector end as file_sector,
    case when state = owner_state then owner_log end as log,
    state
from judged;
