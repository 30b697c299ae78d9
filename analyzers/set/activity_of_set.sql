-- question: When is a set of volumes active?
-- grain: one row per window with a read or write in some volume
-- reads: set_activity, set_volumes
-- parameter: window_s (seconds, 1 to 1000000000, default 3600): length of a window
-- column: window_ns: start of the window, in the set's time
-- column: active_volumes: volumes with a read or write in it
-- column: read_count, write_count, read_bytes, write_bytes: of all volumes
with timed as (
    select
        set_activity.*,
        (set_activity.window_ns + set_volumes.offset_ns) // ($window_s * 1000000000::bigint)
            as window_number
    from set_activity
    inner join set_volumes on set_activity.volume = set_volumes.volume
),

activity_of_set as (
    select
        window_number * $window_s * 1000000000::bigint as window_ns,
        count(distinct volume) as active_volumes,
        sum(read_count)::bigint as read_count,
        sum(write_count)::bigint as write_count,
        sum(read_bytes)::bigint as read_bytes,
        sum(write_bytes)::bigint as write_bytes
    from timed
    group by window_number
)

select *
from activity_of_set
order by window_ns
