-- question: What share of each volume's reads and writes do its most accessed blocks take?
-- grain: one row per device and operation
-- reads: blocks
-- column: device: whole device or volume
-- column: operation: read or write
-- column: block_count: 4 KiB blocks that were read, or written
-- column: touch_count: reads of these blocks, or writes
-- column: top_1_ratio, top_10_ratio: share of the touches that the most read, or written, 1 % and
-- 10 % of these blocks take, rounded up to whole blocks
with counted as (
    select
        device,
        'read' as operation,
        reads as hit_count,
        count(*) as hit_blocks
    from blocks
    where reads > 0
    group by all
    union all
    select
        device,
        'write' as operation,
        writes as hit_count,
        count(*) as hit_blocks
    from blocks
    where writes > 0
    group by all
),

ranked as (
    select
        *,
        sum(hit_blocks) over hottest_first - hit_blocks as hotter_blocks,
        (sum(hit_blocks) over whole)::bigint as block_count,
        (sum(hit_blocks * hit_count) over whole)::bigint as touch_count
    from counted
    window
        hottest_first as (partition by device, operation order by hit_count desc),
        whole as (partition by device, operation)
),

skew as (
    select
        device,
        operation,
        block_count,
        touch_count,
        sum(hit_count * greatest(0, least(hit_blocks, ceil(block_count / 100) - hotter_blocks)))
        / touch_count as top_1_ratio,
        sum(hit_count * greatest(0, least(hit_blocks, ceil(block_count / 10) - hotter_blocks)))
        / touch_count as top_10_ratio
    from ranked
    group by device, operation, block_count, touch_count
)

select *
from skew
order by device, operation
