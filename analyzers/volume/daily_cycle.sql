-- question: At which hours does each volume read and write?
-- grain: one row per device and hour of the day with a read or write; hours from the trace's start
-- reads: requests
-- column: device: whole device or volume
-- column: hour_number: hour of the day, from 0 to 23; 0 begins where the trace begins
-- column: day_count: days on which the volume has a read or write in this hour; with 1 the trace
-- shows no cycle
-- column: read_count, write_count, read_bytes, write_bytes: requests of all these hours, and what
-- they ask for
with hours as (
    select * from volume_windows(3600000000000)
),

daily_cycle as (
    select
        device,
        window_number % 24 as hour_number,
        count(*) as day_count,
        sum(read_count)::bigint as read_count,
        sum(write_count)::bigint as write_count,
        sum(read_bytes)::bigint as read_bytes,
        sum(write_bytes)::bigint as write_bytes
    from hours
    where window_number is not null
    group by device, hour_number
)

select *
from daily_cycle
order by device, hour_number
