-- question: How many requests of a plan were done, in their order, and how long did it take?
-- grain: one row
-- reads: certified_plan, certified_completions
-- column: planned_count, done_count: records of the plan that were to run; that were done
-- column: lost_count, foreign_count: without a completion; completions that are not of the plan
-- column: timed_count: that were issued and had a time
-- column: order_count: that were issued before one that stands before them
-- column: moved_count: for which the program took another time than the plan's
-- column: error_max_ns: the farthest from its time
-- column: due_ns, issued_ns: from the first to the last, as due and as issued
-- column: drift_ns: how much the error grew over the run, by its regression line
with counts as (
    select
        count(plan_row) as planned_count,
        count(*) filter (where plan_row is not null and status = 'done') as done_count,
        count(*) filter (where status is null) as lost_count,
        count(*) filter (where plan_row is null) as foreign_count,
        count(error_ns) as timed_count,
        count(*) filter (where is_out_of_order) as order_count,
        count(*) filter (where intended_ns != due_ns) as moved_count,
        max(error_ns) as error_max_ns,
        max(due_ns) filter (where issued_ns is not null)
        - min(due_ns) filter (where issued_ns is not null) as due_ns,
        max(issued_ns) - min(issued_ns) as issued_ns,
        regr_slope(issued_ns - due_ns, due_ns) as slope
    from certified_requests(certified_plan, certified_completions)
)

select
    * exclude (slope),
    coalesce(slope, 0) * due_ns as drift_ns
from counts
