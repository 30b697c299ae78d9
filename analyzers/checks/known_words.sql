-- question: Are all roles and operations known?
-- grain: no row, or one row when some are not
-- reads: requests
-- column: failing_count: requests with an unknown role or operation
-- column: example_id: smallest request_id of these
with failing as (
    select
        count(*) as failing_count,
        min(request_id) as example_id
    from requests
    where
        role not in ('fs', 'journal', 'swap', 'other', 'unknown')
        or operation not in (
            'read', 'write', 'flush', 'discard', 'write_zeroes', 'zone', 'zone_append',
            'zone_reset', 'zone_reset_all', 'zone_open', 'zone_close', 'zone_finish', 'other'
        )
    having count(*) > 0
)

select *
from failing
order by example_id
