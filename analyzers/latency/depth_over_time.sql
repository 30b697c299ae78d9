-- question: How many requests are under way at a time?
-- grain: one row per device and window of time; requests as queued, those never completed left out
-- reads: requests
-- parameter: window_count (windows, 1 to 10000, default 200): equal parts of the trace
-- column: device: whole device or volume
-- column: window_number: number of the window, from 0
-- column: window_ns: its start
-- column: window_length_ns: its length
-- column: depth_avg: mean over time of the requests queued and not yet completed
-- column: depth_max: largest depth a request met when it was queued, itself included; null if none
with events as not materialized (
    select
        device,
        unnest([queue_ns, complete_ns]) as event_ns,
        unnest([1, -1]) as change,
        unnest([depth, null]) as queue_depth
    from requests
    where queue_ns is not null and complete_ns is not null
),

clock as (
    select max(event_ns) // $window_count + 1 as window_length_ns
    from events
),

-- A queue event adds time from itself to the end; a completion takes the rest off again.
parts as (
    select
        events.device,
        events.event_ns // clock.window_length_ns as window_number,
        sum(events.change) as change_sum,
        sum(-events.change * (events.event_ns % clock.window_length_ns))
        / any_value(clock.window_length_ns) as depth_avg,
        max(events.queue_depth) as depth_max
    from events
    cross join clock
    group by all
),

devices as (
    select distinct device
    from parts
),

depth_over_time as (
    select
        devices.device,
        numbers.range as window_number,
        numbers.range * clock.window_length_ns as window_ns,
        clock.window_length_ns,
        coalesce(sum(parts.change_sum) over by_time, 0) + coalesce(parts.depth_avg, 0) as depth_avg,
        parts.depth_max
    from devices
    cross join range($window_count) as numbers
    cross join clock
    left join parts on devices.device = parts.device and numbers.range = parts.window_number
    window by_time as (partition by devices.device order by numbers.range)
)

select *
from depth_over_time
order by device, window_number
