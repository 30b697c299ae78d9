-- question: Blocks of which files are touched most?
-- grain: one row per file (null: not known) and role, hottest first
-- reads: blocks, file_extents
-- parameter: file_count (files, 1 to 100000, default 20): how many are shown
-- column: file_rank: 1 for the one with the most touches
-- column: role: role of the blocks
-- column: path: path of the file
-- column: log: database whose log it is
-- column: read_count, write_count: touches of blocks by requests
-- column: touched_bytes: different blocks
-- column: traffic_ratio: share of all block touches of the trace
with touches as (
    select
        role,
        path,
        min(log) as log,
        sum(reads)::bigint as read_count,
        sum(writes)::bigint as write_count,
        count(*) * block_bytes() as touched_bytes
    from files_of_blocks
    group by role, path
),

ranked as (
    select
        row_number() over (
            order by read_count + write_count desc, role asc, path asc nulls last
        ) as file_rank,
        touches.*,
        (read_count + write_count) / sum(read_count + write_count) over () as traffic_ratio
    from touches
),

hottest as (
    select *
    from ranked
    where file_rank <= $file_count
)

select *
from hottest
order by file_rank
