-- question: How large is the working set of each role over time, and how fast does it grow?
-- grain: one row per window of time and role
-- reads: working_set
-- column: window_ns: start of the window
-- column: role: role of the blocks
-- column: touched_blocks, touched_bytes: different 4 KiB blocks touched in the window
-- column: new_blocks: of these, never touched before
-- column: seen_blocks, seen_bytes: different blocks touched from the start to the window's end
with footprint as (
    select
        window_ns,
        role,
        distinct_blocks as touched_blocks,
        distinct_blocks * block_bytes() as touched_bytes,
        new_blocks,
        (sum(new_blocks) over by_time)::bigint as seen_blocks,
        (sum(new_blocks) over by_time * block_bytes())::bigint as seen_bytes
    from working_set
    window by_time as (partition by role order by window_ns)
)

select *
from footprint
order by window_ns, role
