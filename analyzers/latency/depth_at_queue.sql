-- question: How many requests does a request meet when it is queued?
-- grain: one row per device and depth; requests as queued
-- reads: requests
-- column: device: whole device or volume
-- column: depth: requests of the device not yet complete, the queued one included
-- column: request_count: requests that met this depth
-- column: smaller_ratio: share of the device's requests that met this depth or a smaller one
with depths as (
    select
        device,
        depth,
        count(*) as request_count
    from requests
    where queue_ns is not null
    group by all
),

depth_at_queue as (
    select
        device,
        depth,
        request_count,
        sum(request_count) over (partition by device order by depth)
        / sum(request_count) over (partition by device) as smaller_ratio
    from depths
)

select *
from depth_at_queue
order by device, depth
