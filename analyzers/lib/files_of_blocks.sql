-- question: Which file has each block?
-- grain: a view; one row per device, 4 KiB block and role
-- reads: blocks, file_extents
-- column: device, block, role, reads, writes, sectors, first_ns, last_ns: of the block
-- column: path: the file, null where it is not known
-- column: directory: of the file
-- column: file_sector: where in the file the block begins
-- column: log: database whose log the file is
-- column: state: as in file_extents; earlier: touched before the file had it; none: no file has it
create view files_of_blocks as
with placed as (
    select
        blocks.*,
        blocks.block * 8 as first_sector,
        blocks.block * 8 + 7 as last_sector
    from blocks
),

found as (
    select
        placed.*,
        owner.path as owner_path,
        owner.log as owner_log,
        owner.state as owner_state,
        owner.from_ns as owner_ns,
        owner.file_sector + placed.first_sector - owner.first_sector as owner_sector,
        placed.first_sector < owner.first_sector + owner.sectors as has_owner,
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
            when owner_ns > first_ns then 'earlier'
            else owner_state
        end as state
    from found
)

select
    device,
    block,
    role,
    reads,
    writes,
    sectors,
    first_ns,
    last_ns,
    case when state = owner_state then owner_path end as path,
    case
        when state = owner_state and owner_path is not null
            then coalesce(nullif(parse_dirpath(owner_path), ''), '/')
    end as directory,
    case when state = owner_state then owner_sector end as file_sector,
    case when state = owner_state then owner_log end as log,
    state
from judged;
