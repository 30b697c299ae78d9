-- question: When is each volume active, and how much does it read and write then?
-- grain: one row per device and window with a read or write; reads and writes as queued
-- reads: requests
-- parameter: window_ms (milliseconds, 1 to 86400000, default 60000): length of a window
-- column: device: whole device or volume
-- column: window_number: number of the window, from 0 at the trace's start
-- column: window_ns: its start
-- column: read_count, write_count, read_bytes, write_bytes: requests queued in the window, and what
-- they ask for
with activity as (
    select
        device,
        window_number,
        window_number * $window_ms * 1000000 as window_ns,
        read_count,
        write_count,
        read_bytes,
        write_bytes
    from volume_windows($window_ms * 1000000::bigint)
    where window_number is not null
)

select *
from activity
order by device, window_number
