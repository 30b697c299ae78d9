-- question: How many requests of each kind were planned and done?
-- grain: one row per kind; a request counts once, whatever pieces it has
-- reads: certified_plan, certified_completions, certified_observed
-- parameter: clock (number, 0 to 2, default 0): the program's, or the kernel's as queued, as issued
-- parameter: lead_ns (ns, 0 to 10000000, default 0): by how much the program was ahead
-- column: kind: of the request
-- column: planned_count, planned_bytes: in the plan
-- column: done_count: of these, requests that were done
with kinds as (
    select
        kind,
        count(distinct request_id) as planned_count,
        sum(length_bytes)::bigint as planned_bytes,
        count(distinct request_id) filter (where status = 'done') as done_count
    from
        certified_requests(
            certified_plan, certified_completions, certified_observed, $clock, $lead_ns
        )
    where plan_row is not null
    group by kind
)

select *
from kinds
order by kind
