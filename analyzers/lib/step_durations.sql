-- question: How long did each step of each request's path through the block layer take?
-- grain: a macro that makes a table; one row per request as queued, a column a step, null if not
--   taken
-- reads: requests
create macro step_durations() as table
    select
        *,
        case when merged_into is null then getrq_ns - queue_ns end as q2g,
        case when merged_into is null then insert_ns - getrq_ns end as g2i,
        merge_ns - queue_ns as q2m,
        case when merged_into is null then issue_ns - insert_ns end as i2d,
        issue_ns - merge_ns as m2d,
        issue_ns - queue_ns as q2d,
        coalesce(transfer_ns, complete_ns) - issue_ns as d2c,
        coalesce(transfer_ns, complete_ns) - queue_ns as q2c,
        complete_ns - queue_ns as wait
    from requests;
