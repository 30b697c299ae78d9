-- question: How many requests of a plan were done, in their order, and how long did it take?
-- grain: one row
-- reads: certified_plan, certified_completions, certified_observed
-- parameter: clock (number, 0 to 2, default 0): the program's, or the kernel's as queued, as issued
-- parameter: lead_ns (ns, 0 to 10000000, default 0): by how much the program was ahead
-- column: planned_count, done_count: records of the plan that were to run; that were done
-- column: lost_count, foreign_count: without a completion; completions that are not of the plan
-- column: timed_count: that were issued and had a time
-- column: order_count: that were issued before one that stands before them
-- column: moved_count: for which the program took another time than the plan's
-- column: merged_count, split_count: that the kernel merged into another one, that it split
-- column: error_max_ns: the farthest from its time
-- column: due_ns, issued_ns: from the first to the last, as due and as issued
-- column: drift_ns: how much the error grew over the run: the median slope between the median
-- errors of 64 parts of equal number (Theil and Sen), over the run
with requests as (
    select *
    from
        certified_requests(
            certified_plan, certified_completions, certified_observed, $clock, $lead_ns
        )
),

counts as (
    select
        count(plan_row) as planned_count,
        count(*) filter (where plan_row is not null and status = 'done') as done_count,
        count(*) filter (where status is null) as lost_count,
        count(*) filter (where plan_row is null) as foreign_count,
        count(error_ns) as timed_count,
        count(*) filter (where is_out_of_order) as order_count,
        count(*) filter (where intended_ns != due_ns) as moved_count,
        count(*) filter (where merge_count > 0) as merged_count,
        count(*) filter (where piece_count > 1) as split_count,
        max(error_ns) as error_max_ns,
        max(due_ns) filter (where error_ns is not null)
        - min(due_ns) filter (where error_ns is not null) as due_ns,
        max(issued_ns) filter (where error_ns is not null)
        - min(issued_ns) filter (where error_ns is not null) as issued_ns
    from requests
),

numbered as (
    select
        due_ns,
        issued_ns - due_ns as late_ns,
        (row_number() over (order by due_ns, plan_row) - 1)
        // ((count(*) over () + 63) // 64) as part
    from requests
    where error_ns is not null
),

parts as (
    select
        part,
        (min(due_ns) + max(due_ns)) / 2 as at_ns,
        quantile_disc(late_ns, 0.5) as late_ns
    from numbered
    group by part
),

slopes as (
    select median((later.late_ns - earlier.late_ns) / (later.at_ns - earlier.at_ns)) as slope
    from parts as earlier
    inner join parts as later on earlier.at_ns < later.at_ns
)

select
    counts.*,
    coalesce(slopes.slope, 0) * counts.due_ns as drift_ns
from counts
cross join slopes
