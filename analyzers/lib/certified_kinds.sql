-- question: How many requests of each kind were planned and done?
-- grain: one row per kind; a request counts once, whatever pieces it has
-- reads: certified_plan, certified_completions
-- column: kind: of the request
-- column: planned_count, planned_bytes: in the plan
-- column: done_count: of these, requests that were done
with kinds as (
    select
        kind,
        count(distinct request_id) as planned_count,
        sum(length_bytes)::bigint as planned_bytes,
        count(distinct request_id) filter (where status = 'done') as done_count
    from certified_requests(certified_plan, certified_completions)
    where plan_row is not null
    group by kind
)

select *
from kinds
order by kind
