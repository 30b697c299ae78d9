-- question: How far from its time did the kernel queue and issue each request of a replay?
-- grain: one row per replay and measure; requests that were found among the kernel's events
-- reads: observed
-- parameter: octave_bits (bits, 0 to 16, default 7): 2^bits buckets an octave hold the times
-- column: replay: name of the replay
-- column: measure: queue_error and issue_error (intended to queued and to issued by the kernel,
-- below 0 when it was early), handed_over (submitted to queued), in_queue (queued to issued),
-- on_device (issued to completed there) or reported (from there to seen by the program)
-- column: request_count: requests
-- column: time_min_ns, time_avg_ns, time_max_ns: exact
-- column: time_p50_ns, time_p90_ns, time_p99_ns, time_p999_ns: nearest rank, as the largest time of
-- its bucket
with found as (
    select
        replay,
        queue_ns - intended_ns as queue_error,
        issue_ns - intended_ns as issue_error,
        queue_ns - submit_ns as handed_over,
        issue_ns - queue_ns as in_queue,
        device_complete_ns - issue_ns as on_device,
        complete_ns - device_complete_ns as reported
    from observed
),

times as (
    unpivot found
    on queue_error, issue_error, handed_over, in_queue, on_device, reported
    into name measure value value
),

kernel_times as (
    select
        replay,
        measure,
        value_count as request_count,
        value_min as time_min_ns,
        value_avg as time_avg_ns,
        value_p50 as time_p50_ns,
        value_p90 as time_p90_ns,
        value_p99 as time_p99_ns,
        value_p999 as time_p999_ns,
        value_max as time_max_ns
    from percentiles_of(times, $octave_bits)
)

select *
from kernel_times
order by replay, measure
