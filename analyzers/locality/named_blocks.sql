-- question: How much of the traffic has the name of a file, and why has the rest none?
-- grain: one row per role and state
-- reads: blocks, file_extents
-- column: role: role of the blocks
-- column: state: as in files_of_blocks
-- column: is_named: the file is known
-- column: block_count: different blocks
-- column: touch_count: touches of blocks by requests
-- column: traffic_ratio: share of the role's block touches
with touches as (
    select
        role,
        state,
        path is not null as is_named,
        count(*) as block_count,
        sum(reads + writes)::bigint as touch_count
    from files_of_blocks
    group by all
),

shares as (
    select
        touches.*,
        touch_count / sum(touch_count) over (partition by role) as traffic_ratio
    from touches
)

select *
from shares
order by role asc, is_named desc, touch_count desc, state asc
