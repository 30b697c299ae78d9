-- question: Are requests numbered from 0 in the order of the table, without gap or repetition?
-- grain: no row, or one row when they are not
-- reads: requests
-- column: failing_count: rows whose request_id is not their place in the table
-- column: example_id: smallest request_id of these rows
--
-- The window has no order on purpose: it numbers the rows as they are stored, and streams.
with places as (
    select
        request_id,
        row_number() over () - 1 as place
    from requests
),

failing as (
    select
        count(*) as failing_count,
        min(request_id) as example_id
    from places
    where request_id <> place
    having count(*) > 0
)

select *
from failing
order by example_id
