-- question: How do the response times of each role change over time?
-- grain: one row per window of queue time and role, where requests were completed
-- reads: requests
-- parameter: window_count (windows, 1 to 10000, default 200): equal parts of the trace
-- parameter: octave_bits (bits, 0 to 16, default 5): 2^bits buckets an octave hold the latencies
-- column: window_number: number of the window, from 0
-- column: window_ns: its start
-- column: window_length_ns: its length
-- column: role: role of the requests
-- column: request_count: completed requests that were queued in the window
-- column: latency_p50_ns, latency_p99_ns: from queued to completed, nearest rank (log_bucket)
-- column: latency_max_ns: exact
with clock as (
    select max(queue_ns) // $window_count + 1 as window_length_ns
    from requests
),

times as (
    select
        requests.queue_ns // clock.window_length_ns as window_number,
        clock.window_length_ns,
        requests.role,
        requests.complete_ns - requests.queue_ns as value
    from requests
    cross join clock
    where requests.complete_ns is not null and requests.queue_ns is not null
),

latency_over_time as (
    select
        window_number,
        window_number * window_length_ns as window_ns,
        window_length_ns,
        role,
        value_count as request_count,
        value_p50 as latency_p50_ns,
        value_p99 as latency_p99_ns,
        value_max as latency_max_ns
    from percentiles_of(times, $octave_bits)
)

select *
from latency_over_time
order by window_number, role
