-- question: How do service times and throughput of each replay change over time?
-- grain: one row per replay, window of submission and operation; requests that were done
-- reads: requests, completions
-- parameter: window_count (windows, 1 to 10000, default 100): equal parts of the run
-- parameter: octave_bits (bits, 0 to 16, default 5): 2^bits buckets an octave hold the times
-- column: window_number: number of the window, from 0
-- column: window_ns: its start
-- column: window_length_ns: its length
-- column: replay, operation, request_count: whose requests, and how many were submitted then
-- column: bytes_per_second: their bytes by the window's length
-- column: service_p50_ns, service_p99_ns: from submitted to completed, nearest rank (log_bucket)
--
-- The windows' lengths are a map: joined as a table they would have the planner keep all
-- completions in memory, and not their requests.
with lengths as (
    select
        replay,
        max(submit_ns) filter (where status = 'done') // $window_count + 1 as length_ns
    from completions
    group by replay
),

clock as (
    select map_from_entries(list((replay, length_ns))) as lengths_ns
    from lengths
),

done as (
    select
        completions.replay,
        clock.lengths_ns[completions.replay] as window_length_ns,
        completions.submit_ns // window_length_ns as window_number,
        requests.operation,
        requests.length_bytes,
        completions.complete_ns - completions.submit_ns as service_ns
    from completions
    inner join requests on completions.request_id = requests.request_id
    cross join clock
    where completions.status = 'done'
),

times as (
    select
        replay,
        window_number,
        operation,
        service_ns as value
    from done
),

traffic as (
    select
        replay,
        window_number,
        window_length_ns,
        operation,
        sum(length_bytes) as moved_bytes
    from done
    group by all
),

replayed_over_time as (
    select
        traffic.replay,
        traffic.window_number,
        traffic.window_number * traffic.window_length_ns as window_ns,
        traffic.window_length_ns,
        traffic.operation,
        times.value_count as request_count,
        traffic.moved_bytes * 1e9 / traffic.window_length_ns as bytes_per_second,
        times.value_p50 as service_p50_ns,
        times.value_p99 as service_p99_ns
    from traffic
    inner join percentiles_of(times, $octave_bits) as times
        on
            traffic.replay = times.replay
            and traffic.window_number = times.window_number
            and traffic.operation = times.operation
)

select *
from replayed_over_time
order by replay, window_number, operation
