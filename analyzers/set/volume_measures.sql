-- question: What is each volume of a set like, and what does it get of the NVM?
-- grain: one row per volume
-- reads: set_volumes, set_totals, set_skew, set_sequentiality, set_distribution, set_shares
-- column: volume: volume of the set
-- column: request_count, duration_ns: of its trace
-- column: footprint_bytes: different 4 KiB blocks read or written, of all devices
-- column: read_bytes, write_bytes: what its reads and writes ask for
-- column: average_per_s, burstiness: of its busiest device: requests a second, and those of the
-- busiest window by the mean of all windows
-- column: write_ratio: share of writes among reads and writes
-- column: sequential_ratio: share of reads and writes that begin where one before them ended
-- column: read_top_10_ratio, write_top_10_ratio: of its busiest device: share of the touches that
-- the most read, or written, 10 % of the blocks take
-- column: response_p99_ns: from queued to completed, upper end of a log-linear bucket; null where
-- the trace has no completions
-- column: capacity_bytes: NVM that it gets
-- column: placement: roles that are placed there, or blocks
-- column: saved_s_an_hour: I/O time that this saves, in seconds an hour of its trace
-- column: saved_s_an_hour_a_gib: the same for each GiB
-- column: saved_ratio: share of its own I/O time
-- column: doubled_bytes: NVM that it gets of twice the budget
with totals as (
    select
        volume,
        sum(working_set_bytes)::bigint as footprint_bytes,
        sum(read_bytes)::bigint as read_bytes,
        sum(write_bytes)::bigint as write_bytes,
        sum(write_count) / sum(read_count + write_count) as write_ratio,
        arg_max(device, (read_count + write_count, device)) as busiest_device
    from set_totals
    group by volume
),

busiest as (
    select
        totals.*,
        set_totals.average_per_s,
        set_totals.burstiness
    from totals
    left join set_totals
        on totals.volume = set_totals.volume and totals.busiest_device = set_totals.device
),

skews as (
    select
        busiest.volume,
        max(set_skew.top_10_ratio) filter (where set_skew.operation = 'read') as read_top_10_ratio,
        max(set_skew.top_10_ratio) filter (where set_skew.operation = 'write')
            as write_top_10_ratio
    from busiest
    left join set_skew
        on busiest.volume = set_skew.volume and busiest.busiest_device = set_skew.device
    group by busiest.volume
),

sequences as (
    select
        volume,
        sum(sequential_count) / sum(request_count) as sequential_ratio
    from set_sequentiality
    group by volume
),

buckets as (
    select
        volume,
        high_ns,
        sum(request_count) as request_count
    from set_distribution
    where step = 'q2c'
    group by volume, high_ns
),

cumulated as (
    select
        *,
        sum(request_count) over (partition by volume order by high_ns) as upto_count,
        sum(request_count) over (partition by volume) as all_count
    from buckets
),

responses as (
    select
        volume,
        min(high_ns) as response_p99_ns
    from cumulated
    where upto_count >= 0.99 * all_count
    group by volume
),

volume_measures as (
    select
        set_volumes.volume,
        set_volumes.request_count,
        set_volumes.duration_ns,
        busiest.footprint_bytes,
        busiest.read_bytes,
        busiest.write_bytes,
        busiest.average_per_s,
        busiest.burstiness,
        busiest.write_ratio,
        sequences.sequential_ratio,
        skews.read_top_10_ratio,
        skews.write_top_10_ratio,
        responses.response_p99_ns,
        set_shares.capacity_bytes,
        set_shares.placement,
        set_shares.saved_s_an_hour,
        set_shares.saved_s_an_hour_a_gib,
        set_shares.saved_ratio,
        set_shares.doubled_bytes
    from set_volumes
    left join busiest on set_volumes.volume = busiest.volume
    left join skews on set_volumes.volume = skews.volume
    left join sequences on set_volumes.volume = sequences.volume
    left join responses on set_volumes.volume = responses.volume
    left join set_shares on set_volumes.volume = set_shares.volume
)

select *
from volume_measures
order by saved_s_an_hour_a_gib desc nulls last, saved_s_an_hour desc nulls last, volume asc
