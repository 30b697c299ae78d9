-- question: How many requests of each replay take how long, and when are they submitted?
-- grain: one row per replay, window of submission and log-linear bucket of times; requests done
-- reads: completions
-- parameter: window_count (windows, 1 to 10000, default 120): equal parts of the run
-- parameter: octave_bits (bits, 0 to 16, default 2): 2^bits buckets an octave
-- column: replay: name of the replay
-- column: window_number: number of the window, from 0
-- column: window_length_ns: length of a window
-- column: low_ns, high_ns: smallest time of the bucket, from submitted to completed, and of the
-- next one
-- column: request_count: requests that were submitted in the window
with clock as (
    select
        replay,
        max(submit_ns) // $window_count + 1 as window_length_ns
    from completions
    where status = 'done'
    group by replay
),

times as (
    select
        completions.replay,
        completions.submit_ns // clock.window_length_ns as window_number,
        clock.window_length_ns,
        completions.complete_ns - completions.submit_ns as value
    from completions
    inner join clock on completions.replay = clock.replay
    where completions.status = 'done'
),

service_heat_map as (
    select
        replay,
        window_number,
        window_length_ns,
        low as low_ns,
        high as high_ns,
        value_count as request_count
    from distribution_of(times, $octave_bits)
)

select *
from service_heat_map
order by replay, window_number, low_ns
