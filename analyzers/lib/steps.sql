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
        q2g,
        g2i,
        q2m,
        i2d,
        m2d,
        q2d,
        d2c,
        q2c,
        wait
    from step_durations()
)

unpivot durations
on q2g, g2i, q2m, i2d, m2d, q2d, d2c, q2c, wait
into name step value latency_ns;
