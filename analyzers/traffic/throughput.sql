-- question: How does the traffic of each role change over time?
-- grain: one row per window of time, role and operation that has requests queued in it
-- reads: requests
-- parameter: window_count (windows, 1 to 10000, default 200): equal parts of the trace
-- column: window_number: number of the window, from 0
-- column: window_ns: its start
-- column: window_length_ns: its length
-- column: role: role of the requests
-- column: operation: operation
-- column: request_count: requests queued in the window
-- column: request_bytes: bytes of these requests
with arrivals as not materialized (
    select
        requests.role,
        coalesce(requests.operation, 'unknown') as operation,
        requests.length_bytes,
        coalesce(requests.queue_ns, requests.issue_ns, requests.complete_ns) as arrival_ns
    from requests
),

clock as (
    select max(arrivals.arrival_ns) // $window_count + 1 as window_length_ns
    from arrivals
),

traffic as (
    select
        arrivals.arrival_ns // clock.window_length_ns as window_number,
        arrivals.role,
        arrivals.operation,
        clock.window_length_ns,
        count(*) as request_count,
        sum(arrivals.length_bytes)::bigint as request_bytes
    from arrivals
    cross join clock
    where arrivals.arrival_ns is not null
    group by all
),

throughput as (
    select
        traffic.window_number,
        traffic.window_number * traffic.window_length_ns as window_ns,
        traffic.window_length_ns,
        traffic.role,
        traffic.operation,
        traffic.request_count,
        traffic.request_bytes
    from traffic
)

select *
from throughput
order by window_number, role, operation
