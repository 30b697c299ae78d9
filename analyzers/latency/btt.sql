-- question: What is btt's table of all devices: how long is each step of a request's path?
-- grain: one row per step; counted as btt does, over all requests with data
-- reads: requests
-- counted: request_times, request_gaps
-- column: step_number: place of the step in btt's table, from 1
-- column: step: q2q, q2g, g2i, q2m, i2d, m2d, d2c or q2c
-- column: request_count: requests that took the step; btt's N
-- column: latency_min_ns, latency_avg_ns, latency_max_ns: exact
--
-- Q2Q is between the queue events of all devices. A merged request takes the issue and completion
-- of its merge target as its own. A closing cache flush is not part of D2C and Q2C.
with times as (
    select
        step,
        bucket_count,
        bucket_sum,
        bucket_min,
        bucket_max
    from request_times
    where
        has_data
        and (
            step in ('q2g', 'g2i', 'q2m', 'i2d', 'm2d')
            or (has_transfer and step in ('d2c', 'q2c'))
        )
    union all
    select
        'q2q' as step,
        bucket_count,
        bucket_sum,
        bucket_min,
        bucket_max
    from request_gaps
    where gap = 'of_data'
),

btt as (
    select
        list_position(['q2q', 'q2g', 'g2i', 'q2m', 'i2d', 'm2d', 'd2c', 'q2c'], step)
            as step_number,
        step,
        sum(bucket_count)::bigint as request_count,
        min(bucket_min) as latency_min_ns,
        sum(bucket_sum)::hugeint / sum(bucket_count) as latency_avg_ns,
        max(bucket_max) as latency_max_ns
    from times
    group by step
)

select *
from btt
order by step_number
