-- question: Does each merged request name a merge target that exists and was not merged itself?
-- grain: no row, or one row when some do not
-- reads: requests
-- column: failing_count: merged requests without such a merge target
-- column: example_id: smallest request_id of these
with targets as (
    select request_id
    from requests
    where merged_into is null
),

failing as (
    select
        count(*) as failing_count,
        min(requests.request_id) as example_id
    from requests
    anti join targets on requests.merged_into = targets.request_id
    where requests.merged_into is not null
    having count(*) > 0
)

select *
from failing
order by example_id
