-- question: How many requests take how long, and when are they queued?
-- grain: one row per window of queue time and log-linear bucket of response times
-- reads: requests
-- parameter: window_count (windows, 1 to 10000, default 120): equal parts of the trace
-- parameter: octave_bits (bits, 0 to 16, default 2): 2^bits buckets an octave
-- column: window_number: number of the window, from 0
-- column: window_length_ns: length of a window
-- column: low_ns, high_ns: smallest time of the bucket, from queued to completed, and of the next
-- column: request_count: completed requests that were queued in the window
with clock as (
    select max(queue_ns) // $window_count + 1 as window_length_ns
    from requests
),

times as (
    select
        requests.queue_ns // clock.window_length_ns as window_number,
        clock.window_length_ns,
        requests.complete_ns - requests.queue_ns as value
    from requests
    cross join clock
    where requests.complete_ns is not null and requests.queue_ns is not null
),

latency_heat_map as (
    select
        window_number,
        window_length_ns,
        low as low_ns,
        high as high_ns,
        value_count as request_count
    from distribution_of(times, $octave_bits)
)

select *
from latency_heat_map
order by window_number, low_ns
