-- question: How far from its time was the request of each wanted rank?
-- grain: one row per row of wanted_ranks, in the order of the ranks
-- reads: certified_plan, certified_completions, certified_observed, wanted_ranks
-- parameter: clock (number, 0 to 2, default 0): the program's, or the kernel's as queued, as issued
-- parameter: lead_ns (ns, 0 to 10000000, default 0): by how much the program was ahead
-- column: rank: 1 is the request that was nearest to its time
-- column: error_ns: how far it was from it
with ranked as (
    select
        error_ns,
        row_number() over (order by error_ns) as rank
    from
        certified_requests(
            certified_plan, certified_completions, certified_observed, $clock, $lead_ns
        )
    where error_ns is not null
)

select
    ranked.rank,
    ranked.error_ns
from ranked
semi join wanted_ranks on ranked.rank = wanted_ranks.rank
order by ranked.rank
