-- question: What is counted of each request for log-linear histograms (request_buckets.py)?
-- grain: one row per request as queued, in the order of the table; no_value() for null
-- reads: requests
-- column: device_code, role_code, operation_code, flag_code: its kind, as in kinds_of_requests
-- column: queue_ns, data_queue_ns, flush_queue_ns: when it was queued; of requests with data only,
-- of flushes and preflushes only
-- column: first_sector, end_sector: place of a read or write with data, or one with data whose
-- operation is not known
-- column: q2g, g2i, q2m, i2d, m2d, q2d, d2c, q2c, wait: as in the view steps
with facts as not materialized (
    select
        *,
        length_bytes > 0 as has_data,
        operation = 'flush' or is_preflush as is_flush,
        length_bytes > 0 and coalesce(operation in ('read', 'write'), true) as is_transfer
    from step_durations()
),

rows_to_count as (
    select
        coalesce(enum_code(device::device_word)::integer + 1, 0) as device_code,
        coalesce(enum_code(role::role_word)::integer + 1, 0) as role_code,
        coalesce(enum_code(operation::operation_word)::integer + 1, 0) as operation_code,
        flag_code(is_preflush, length_bytes, transfer_ns) as flag_code,
        coalesce(queue_ns, no_value()) as queue_ns,
        coalesce(case when has_data then queue_ns end, no_value()) as data_queue_ns,
        coalesce(case when is_flush then queue_ns end, no_value()) as flush_queue_ns,
        coalesce(case when is_transfer then sector end, no_value()) as first_sector,
        coalesce(sector + length_bytes // sector_bytes(), no_value()) as end_sector,
        coalesce(q2g, no_value()) as q2g,
        coalesce(g2i, no_value()) as g2i,
        coalesce(q2m, no_value()) as q2m,
        coalesce(i2d, no_value()) as i2d,
        coalesce(m2d, no_value()) as m2d,
        coalesce(q2d, no_value()) as q2d,
        coalesce(d2c, no_value()) as d2c,
        coalesce(q2c, no_value()) as q2c,
        coalesce(wait, no_value()) as wait
    from facts
)

select *
from rows_to_count
