-- question: What is each volume like: its rates, bursts, active time, working set and randomness?
-- grain: one row per device; reads and writes as queued, those without data left out
-- reads: requests, blocks, volumes
-- parameter: window_ms (milliseconds, 1 to 86400000, default 60000): over which rates are taken
-- parameter: period_windows (windows, 1 to 100000, default 10): in an active period
-- column: device: whole device or volume
-- column: read_count, write_count, read_bytes, write_bytes: requests, and what they ask for; reads
-- with those whose operation the format does not say
-- column: write_ratio: share of writes among these requests
-- column: untimed_count: of the requests, those without a time, which no rate and period counts
-- column: first_ns, last_ns: first and last of them
-- column: window_count: windows from that of the first to that of the last; with 1 the trace is too
-- short for window_ms, and burstiness is 1
-- column: average_per_s: requests a second between the first and the last; null where both have one
-- time
-- column: peak_per_s: requests a second in the window that has most
-- column: burstiness: requests in the window that has most, by the mean of all windows
-- column: period_count: periods from the first request to the last
-- column: active_periods, read_active_periods, write_active_periods: of them, those with a request,
-- a read, a write
-- column: working_set_bytes: different 4 KiB blocks read or written
-- column: read_set_bytes, write_set_bytes, update_set_bytes: of them, those read, those written,
-- those written more than once
-- column: update_coverage_ratio: share of the working set that is updated
-- column: random_count: requests that begin more than 128 KiB from each of the 32 before them
-- column: random_ratio: share of these requests
with windows as (
    select
        *,
        read_count + write_count as request_count,
        window_number // $period_windows as period_number
    from volume_windows($window_ms * 1000000::bigint)
),

rates as (
    select
        windows.device,
        sum(windows.read_count)::bigint as read_count,
        sum(windows.write_count)::bigint as write_count,
        sum(windows.read_bytes)::bigint as read_bytes,
        sum(windows.write_bytes)::bigint as write_bytes,
        coalesce(sum(windows.request_count) filter (where windows.window_number is null), 0)::bigint
            as untimed_count,
        min(windows.first_ns) as first_ns,
        max(windows.last_ns) as last_ns,
        max(windows.window_number) - min(windows.window_number) + 1 as window_count,
        max(windows.request_count) filter (where windows.window_number is not null)
            as peak_count,
        max(windows.period_number) - min(windows.period_number) + 1 as period_count,
        count(distinct windows.period_number) as active_periods,
        count(distinct windows.period_number) filter (where windows.read_count > 0)
            as read_active_periods,
        count(distinct windows.period_number) filter (where windows.write_count > 0)
            as write_active_periods
    from windows
    group by windows.device
),

working_sets as (
    select
        blocks.device,
        count(*) * block_bytes() as working_set_bytes,
        sum((blocks.reads > 0)::int)::bigint * block_bytes() as read_set_bytes,
        sum((blocks.writes > 0)::int)::bigint * block_bytes() as write_set_bytes,
        sum((blocks.writes > 1)::int)::bigint * block_bytes() as update_set_bytes
    from blocks
    group by blocks.device
),

volume_totals as (
    select
        rates.device,
        rates.read_count,
        rates.write_count,
        rates.read_bytes,
        rates.write_bytes,
        rates.write_count / (rates.read_count + rates.write_count) as write_ratio,
        rates.untimed_count,
        rates.first_ns,
        rates.last_ns,
        rates.window_count,
        (rates.read_count + rates.write_count - rates.untimed_count)
        / (nullif(rates.last_ns - rates.first_ns, 0) / 1e9) as average_per_s,
        rates.peak_count / ($window_ms / 1000) as peak_per_s,
        rates.peak_count * rates.window_count
        / (rates.read_count + rates.write_count - rates.untimed_count) as burstiness,
        rates.period_count,
        rates.active_periods,
        rates.read_active_periods,
        rates.write_active_periods,
        working_sets.working_set_bytes,
        working_sets.read_set_bytes,
        working_sets.write_set_bytes,
        working_sets.update_set_bytes,
        working_sets.update_set_bytes / working_sets.working_set_bytes as update_coverage_ratio,
        volumes.random_reads + volumes.random_writes as random_count,
        (volumes.random_reads + volumes.random_writes) / (volumes.reads + volumes.writes)
            as random_ratio
    from rates
    left join working_sets on rates.device = working_sets.device
    left join volumes on rates.device = volumes.device
)

select *
from volume_totals
order by device
