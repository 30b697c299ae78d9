-- question: Do the first touches counted in `working_set` agree with the number of `blocks`?
-- grain: no row, or one row when they do not
-- reads: blocks, working_set
-- column: failing_count: blocks that only one of the tables has
-- column: example_id: always null, as no single request is wrong
with totals as (
    select count(*) as block_count
    from blocks
),

firsts as (
    select coalesce(sum(new_blocks), 0)::bigint as new_count
    from working_set
),

failing as (
    select
        abs(totals.block_count - firsts.new_count) as failing_count,
        null::bigint as example_id
    from totals
    cross join firsts
)

select *
from failing
where failing_count > 0
order by failing_count
