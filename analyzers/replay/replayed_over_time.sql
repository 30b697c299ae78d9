-- question: How do service times and throughput of each replay change over time?
-- grain: one row per replay, window of submission and operation; requests that were done
-- reads: requests, completions
-- counted: replay_windows, replay_lengths
-- parameter: window_count (windows, 1 to 10000, default 100): equal parts of the run
-- parameter: octave_bits (bits, 0 to 16, default 5): 2^bits buckets an octave hold the times
-- column: window_number: number of the window, from 0
-- column: window_ns: its start
-- column: window_length_ns: its length
-- column: replay, operation, request_count: whose requests, and how many were submitted then
-- column: bytes_per_second: their bytes by the window's length
-- column: service_p50_ns, service_p99_ns: from submitted to completed, nearest rank (log_bucket)
with times as (
    select
        replay,
        window_number,
        window_length_ns,
        operation,
        bucket_count,
        bucket_sum,
        bucket_min,
        bucket_max
    from replay_windows
    where window_count = $window_count
),

traffic as (
    select
        replay,
        window_number,
        operation,
        sum(bucket_sum)::hugeint as moved_bytes
    from replay_lengths
    where window_count = $window_count
    group by replay, window_number, operation
),

replayed_over_time as (
    select
        traffic.replay,
        traffic.window_number,
        traffic.window_number * times.window_length_ns as window_ns,
        times.window_length_ns,
        traffic.operation,
        times.value_count as request_count,
        traffic.moved_bytes * 1e9 / times.window_length_ns as bytes_per_second,
        times.value_p50 as service_p50_ns,
        times.value_p99 as service_p99_ns
    from traffic
    inner join merged_percentiles_of(times, $octave_bits) as times
        on
            traffic.replay = times.replay
            and traffic.window_number = times.window_number
            and traffic.operation = times.operation
)

select *
from replayed_over_time
order by replay, window_number, operation
