-- question: Does each request's path go forward in time?
-- grain: no row, or one row when some do not
-- reads: requests
-- column: failing_count: requests with a step that ends before it begins
-- column: example_id: smallest request_id of these
--
-- A completion whose issue was not captured has a null issue_ns and is not counted here.
with failing as (
    select
        count(*) as failing_count,
        min(request_id) as example_id
    from requests
    where
        queue_ns > getrq_ns
        or queue_ns > merge_ns
        or getrq_ns > insert_ns
        or queue_ns > issue_ns
        or insert_ns > issue_ns
        or merge_ns > issue_ns
        or issue_ns > transfer_ns
        or transfer_ns > complete_ns
        or queue_ns > complete_ns
    having count(*) > 0
)

select *
from failing
order by example_id
