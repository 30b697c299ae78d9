-- question: How much traffic does each role get, and how many different sectors does it touch?
-- grain: one row per role; requests are counted as queued
-- reads: requests, blocks
-- column: role: role of the requests
-- column: request_count, read_count, write_count, flush_count, discard_count: as queued
-- column: preflush_count: of the writes, those that flush the device's cache before their data
-- column: read_bytes, write_bytes, discard_bytes: bytes asked for
-- column: unknown_bytes: bytes of requests whose operation is not known
-- column: read_sectors, write_sectors, total_sectors: 512-byte sectors read and written, each as
-- often as it was; total_sectors with those of unknown operations
-- column: distinct_sectors: different sectors read or written, each once
-- column: distinct_blocks: different 4 KiB blocks read or written, each once
with by_role as (
    select
        requests.role,
        count(*) as request_count,
        count(*) filter (where requests.operation = 'read') as read_count,
        count(*) filter (where requests.operation = 'write') as write_count,
        count(*) filter (where requests.operation = 'flush') as flush_count,
        count(*) filter (where requests.operation = 'discard') as discard_count,
        count(*) filter (where requests.is_preflush and requests.operation <> 'flush')
            as preflush_count,
        coalesce(sum(requests.length_bytes) filter (where requests.operation = 'read'), 0)::bigint
            as read_bytes,
        coalesce(sum(requests.length_bytes) filter (where requests.operation = 'write'), 0)::bigint
            as write_bytes,
        coalesce(
            sum(requests.length_bytes) filter (where requests.operation = 'discard'), 0
        )::bigint as discard_bytes,
        coalesce(sum(requests.length_bytes) filter (where requests.operation is null), 0)::bigint
            as unknown_bytes
    from requests
    group by requests.role
),

footprint as (
    select
        blocks.role,
        sum(blocks.sectors)::bigint as distinct_sectors,
        count(*) as distinct_blocks
    from blocks
    group by blocks.role
),

totals as (
    select
        by_role.*,
        by_role.read_bytes // sector_bytes() as read_sectors,
        by_role.write_bytes // sector_bytes() as write_sectors,
        (by_role.read_bytes + by_role.write_bytes + by_role.unknown_bytes) // sector_bytes()
            as total_sectors,
        coalesce(footprint.distinct_sectors, 0) as distinct_sectors,
        coalesce(footprint.distinct_blocks, 0) as distinct_blocks
    from by_role
    left join footprint on by_role.role = footprint.role
)

select *
from totals
order by role
