-- question: What share of the traffic do the hottest blocks of a role take?
-- grain: one row per role (and 'all' of them) and number of hits of a 4 KiB block, hottest first
-- reads: blocks
-- column: role: role of the blocks, or 'all'
-- column: hit_count: reads and writes that each of these blocks had
-- column: block_count: blocks with exactly this many
-- column: hotter_blocks, hotter_bytes: blocks with this many or more, and their size
-- column: hotter_hits: hits of these blocks
-- column: block_ratio: share of the role's touched blocks that they are
-- column: traffic_ratio: share of the role's hits that they take
with hits as (
    select
        coalesce(role, 'all') as role,
        reads + writes as hit_count,
        count(*) as block_count
    from blocks
    group by grouping sets ((blocks.role, hit_count), (hit_count))
),

cumulated as (
    select
        role,
        hit_count,
        block_count,
        (sum(block_count) over hottest_first)::bigint as hotter_blocks,
        (sum(block_count * hit_count) over hottest_first)::bigint as hotter_hits,
        sum(block_count) over whole as all_blocks,
        sum(block_count * hit_count) over whole as all_hits
    from hits
    window
        hottest_first as (partition by role order by hit_count desc),
        whole as (partition by role)
),

coverage as (
    select
        role,
        hit_count,
        block_count,
        hotter_blocks,
        hotter_blocks * block_bytes() as hotter_bytes,
        hotter_hits,
        hotter_blocks / all_blocks as block_ratio,
        hotter_hits / nullif(all_hits, 0) as traffic_ratio
    from cumulated
)

select *
from coverage
order by role asc, hit_count desc
