-- question: How many requests do not count as traffic of an extent?
-- grain: one row per reason
-- reads: requests
-- column: reason: no_transfer (flushes, discards and the like, or nothing to move) or impossible (a
-- place or length that no disk has)
-- column: request_count: requests as queued
with left_out as (
    select
        case
            when operation not in ('read', 'write') or length_bytes = 0 then 'no_transfer'
            else 'impossible'
        end as reason,
        count(*) as request_count
    from requests
    where
        operation not in ('read', 'write')
        or not is_possible(sector, length_bytes)
    group by reason
)

select *
from left_out
order by reason
