-- question: How many blocks of each role are hot, warm and cold, and how much traffic do they get?
-- grain: one row per role and temperature
-- reads: blocks
-- column: role: role of the blocks
-- column: temperature: hot, warm or cold by the rule in trace.json
-- column: block_count, block_bytes: 4 KiB blocks and their size
-- column: read_count, write_count: requests that touched them, once for each block
-- column: traffic_ratio: their share of all block touches of the trace
with temperature as (
    select
        role,
        temperature,
        count(*) as block_count,
        count(*) * block_bytes() as block_bytes,
        sum(reads)::bigint as read_count,
        sum(writes)::bigint as write_count,
        (sum(reads) + sum(writes)) / nullif(sum(sum(reads) + sum(writes)) over (), 0)
            as traffic_ratio
    from blocks
    group by all
)

select *
from temperature
order by role, temperature
