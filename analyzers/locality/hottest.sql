-- question: Which blocks are touched most?
-- grain: one row per block, hottest first
-- reads: blocks
-- parameter: block_count (blocks, 1 to 100000, default 20): how many blocks are shown
-- column: block_rank: 1 for the block with the most touches
-- column: device: whole device or volume
-- column: block: 4 KiB block number, from the start of the device
-- column: role: role of the block
-- column: read_count, write_count: requests that touched it
-- column: first_ns, last_ns: first and last touch
-- column: traffic_ratio: its share of all block touches of the trace
with leaders as (
    select
        device,
        block,
        role,
        reads as read_count,
        writes as write_count,
        first_ns,
        last_ns,
        traffic_ratio
    from blocks
    order by reads + writes desc, device asc, block asc
    limit $block_count
),

hottest as (
    select
        row_number() over (order by read_count + write_count desc, device asc, block asc)
            as block_rank,
        leaders.*
    from leaders
)

select *
from hottest
order by block_rank
