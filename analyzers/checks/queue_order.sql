-- question: Are the requests stored in the order in which they were queued?
-- grain: no row, or one row when they are not
-- reads: requests
-- column: failing_count: requests that were queued before the one stored ahead of them
-- column: example_id: smallest request_id of these
--
-- The window has no order on purpose: it looks at the rows as they are stored, and streams.
with pairs as (
    select
        request_id,
        queue_ns < lag(queue_ns) over () as is_failing
    from requests
    where queue_ns is not null
),

failing as (
    select
        count(*) as failing_count,
        min(request_id) as example_id
    from pairs
    where is_failing
    having count(*) > 0
)

select *
from failing
order by example_id
