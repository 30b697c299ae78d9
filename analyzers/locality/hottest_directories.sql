-- question: Blocks of which directories are touched most?
-- grain: one row per directory (null: not known) and role, hottest first
-- reads: blocks, file_extents
-- parameter: directory_count (directories, 1 to 100000, default 20): how many are shown
-- column: directory_rank: 1 for the one with the most touches
-- column: role: role of the blocks
-- column: directory: path of the directory, without those below it
-- column: log: database whose log they all are
-- column: read_count, write_count: touches of blocks by requests
-- column: touched_bytes: different blocks
-- column: traffic_ratio: share of all block touches of the trace
with touches as (
    select
        role,
        directory,
        case when count(log) = count(*) and min(log) = max(log) then min(log) end as log,
        sum(reads)::bigint as read_count,
        sum(writes)::bigint as write_count,
        count(*) * block_bytes() as touched_bytes
    from files_of_blocks
    group by role, directory
),

ranked as (
    select
        row_number() over (
            order by read_count + write_count desc, role asc, directory asc nulls last
        ) as directory_rank,
        touches.*,
        (read_count + write_count) / sum(read_count + write_count) over () as traffic_ratio
    from touches
),

hottest as (
    select *
    from ranked
    where directory_rank <= $directory_count
)

select *
from hottest
order by directory_rank
