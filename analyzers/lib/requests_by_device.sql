-- question: What are the requests of each device?
-- grain: one row per request, by device and in queue order
-- reads: requests
with placed as (
    select *
    from requests
)

select *
from placed
order by device, request_id
