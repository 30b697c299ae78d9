-- question: What is btt's table of all devices: how long is each step of a request's path?
-- grain: one row per step; counted as btt does, over all requests with data
-- reads: requests
-- column: step_number: place of the step in btt's table, from 1
-- column: step: q2q, q2g, g2i, q2m, i2d, m2d, d2c or q2c
-- column: request_count: requests that took the step; btt's N
-- column: latency_min_ns, latency_avg_ns, latency_max_ns: exact
--
-- Q2Q is between the queue events of all devices. A merged request takes the issue and completion
-- of its merge target as its own. A closing cache flush is not part of D2C and Q2C. The window has
-- no order on purpose: requests are stored in queue order (checks/queue_order), and so it streams.
with durations as (
    select
        case when merged_into is null then getrq_ns - queue_ns end as q2g,
        case when merged_into is null then insert_ns - getrq_ns end as g2i,
        merge_ns - queue_ns as q2m,
        case when merged_into is null then issue_ns - insert_ns end as i2d,
        issue_ns - merge_ns as m2d,
        transfer_ns - issue_ns as d2c,
        transfer_ns - queue_ns as q2c
    from requests
    where length_bytes > 0
),

gaps as (
    select queue_ns - lag(queue_ns) over () as q2q
    from requests
    where length_bytes > 0 and queue_ns is not null
),

latencies as (
    unpivot durations on q2g, g2i, q2m, i2d, m2d, d2c, q2c into name step value latency_ns
    union all
    unpivot gaps on q2q into name step value latency_ns
),

btt as (
    select
        list_position(['q2q', 'q2g', 'g2i', 'q2m', 'i2d', 'm2d', 'd2c', 'q2c'], step)
            as step_number,
        step,
        count(*) as request_count,
        min(latency_ns) as latency_min_ns,
        avg(latency_ns) as latency_avg_ns,
        max(latency_ns) as latency_max_ns
    from latencies
    group by step
)

select *
from btt
order by step_number
