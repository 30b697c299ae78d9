-- question: Do the touches counted in `blocks` agree with the reads and writes of `requests`?
-- grain: no row, or one row when they do not
-- reads: requests, blocks
-- column: failing_count: touches that only one of the tables has, reads and writes apart;
-- operations that are not known are reads
-- column: example_id: always null, as no single request is wrong
with asked as (
    select
        coalesce(requests.operation, 'read') as operation,
        sum(
            (sector + (length_bytes + sector_bytes() - 1) // sector_bytes() - 1)
            // (block_bytes() // sector_bytes())
            - sector // (block_bytes() // sector_bytes())
            + 1
        )::bigint as touch_count
    from requests
    where
        (requests.operation in ('read', 'write') or requests.operation is null)
        and requests.length_bytes > 0
    group by all
),

counted as (
    select
        'read' as operation,
        sum(reads)::bigint as touch_count
    from blocks
    union all
    select
        'write' as operation,
        sum(writes)::bigint as touch_count
    from blocks
),

failing as (
    select
        sum(
            abs(coalesce(counted.touch_count, 0) - coalesce(asked.touch_count, 0))
        )::bigint as failing_count,
        null::bigint as example_id
    from counted
    left join asked on counted.operation = asked.operation
)

select *
from failing
where failing_count > 0
order by failing_count
