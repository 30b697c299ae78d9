-- question: How do service times and throughput of each replay change over time?
-- grain: one row per replay, window of submission and operation; requests that were done
-- reads: requests, completions
-- parameter: window_count (windows, 1 to 10000, default 100): equal parts of the run
-- parameter: octave_bits (bits, 0 to 16, default 5): 2^bits buckets an octave hold the times
-- column: window_number, window_ns, window_length_ns: number from 0, start and length of a window
-- column: replay, operation, request_count: whose requests, and how many were submitted then
-- column: bytes_per_second: their bytes by the window's length
-- column: service_p50_ns, service_p99_ns: from submitted to completed, nearest rank (log_bucket)
with clock as (
    select
        replay,
        max(submit_ns) filter (where status = 'done') // $window_count + 1 as window_length_ns
    from completions
    group by all
),

buckets as (
    select
        completions.replay,
        clock.window_length_ns,
        completions.submit_ns // clock.window_length_ns as window_number,
        requests.operation,
        log_bucket(completions.complete_ns - completions.submit_ns, $octave_bits) as bucket,
        count(*) as bucket_count,
        sum(requests.length_bytes) as bucket_bytes,
        max(completions.complete_ns - completions.submit_ns) as max_ns
    from completions inner join requests on completions.request_id = requests.request_id
    inner join clock on completions.replay = clock.replay
    where completions.status = 'done'
    group by all
),

ranked as (
    select
        *,
        sum(bucket_count) over (whole order by bucket) / sum(bucket_count) over whole
            as smaller_ratio
    from buckets
    window whole as (partition by replay, window_number, operation)
),

replayed_over_time as (
    select
        replay,
        window_number,
        window_number * window_length_ns as window_ns,
        window_length_ns,
        operation,
        sum(bucket_count)::bigint as request_count,
        sum(bucket_bytes * 1e9 / window_length_ns) as bytes_per_second,
        min(max_ns) filter (where smaller_ratio >= 0.5) as service_p50_ns,
        min(max_ns) filter (where smaller_ratio >= 0.99) as service_p99_ns
    from ranked
    group by all
)

select *
from replayed_over_time
order by replay, window_number, operation
