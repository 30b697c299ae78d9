-- question: How long did each step of each request's path through the block layer take?
-- grain: a view; one row per request as queued and step that it took
-- reads: requests
-- column: request_id, device, role, operation, is_preflush: of the request
-- column: step: q2g (queued to allocated), g2i (allocated to inserted), q2m (queued to merged),
-- i2d (inserted to issued), m2d (merged to issued), q2d (queued to issued), d2c (issued to the last
-- byte done or the end of an empty flush), q2c (queued to the same) or wait (queued to completed, a
-- closing flush included)
-- column: latency_ns: time the step took
create view steps as
with durations as (
    select
        request_id,
        device,
        role,
        operation,
        is_preflush,
        case when merged_into is null then getrq_ns - queue_ns end as q2g,
        case when merged_into is null then insert_ns - getrq_ns end as g2i,
        merge_ns - queue_ns as q2m,
        case when merged_into is null then issue_ns - insert_ns end as i2d,
        issue_ns - merge_ns as m2d,
        issue_ns - queue_ns as q2d,
        coalesce(transfer_ns, complete_ns) - issue_ns as d2c,
        coalesce(transfer_ns, complete_ns) - queue_ns as q2c,
        complete_ns - queue_ns as wait
    from requests
)

unpivot durations
on q2g, g2i, q2m, i2d, m2d, q2d, d2c, q2c, wait
into name step value latency_ns;
