-- question: How long is it from one access of a block to the next, and between requests?
-- grain: one row per device and kind
-- reads: intervals
-- column: device: whole device or volume
-- column: kind: RAR, WAR, RAW, WAW (the later access after the earlier one), update (from a write
-- of a block to its next, reads between them or not) or arrival (between requests of the device)
-- column: interval_count: how many
-- column: access_ratio: share of these accesses among those of RAR, WAR, RAW and WAW
-- column: untimed_count: of the intervals, those of which a time is not known
-- column: time_p25_ns, time_p50_ns, time_p75_ns, time_p90_ns, time_p99_ns: nearest rank, upper end
-- of its log-linear bucket: at most 6.3 % above
with ranked as (
    select
        *,
        high_ns - 1 as longest_ns,
        low_ns is null as is_untimed,
        sum(interval_count) filter (where low_ns is not null) over (kinds order by low_ns)
            as upto_count,
        sum(interval_count) filter (where low_ns is not null) over kinds as timed_count
    from intervals
    window kinds as (partition by device, kind)
),

counted as (
    select
        device,
        kind,
        kind not in ('update', 'arrival') as is_access,
        sum(interval_count)::bigint as interval_count,
        coalesce(sum(interval_count) filter (where is_untimed), 0)::bigint as untimed_count,
        min(longest_ns) filter (where upto_count >= 0.25 * timed_count) as time_p25_ns,
        min(longest_ns) filter (where upto_count >= 0.5 * timed_count) as time_p50_ns,
        min(longest_ns) filter (where upto_count >= 0.75 * timed_count) as time_p75_ns,
        min(longest_ns) filter (where upto_count >= 0.9 * timed_count) as time_p90_ns,
        min(longest_ns) filter (where upto_count >= 0.99 * timed_count) as time_p99_ns
    from ranked
    group by all
),

access_times as (
    select
        device,
        kind,
        interval_count,
        case
            when is_access
                then interval_count / sum(interval_count) over (partition by device, is_access)
        end as access_ratio,
        untimed_count,
        time_p25_ns,
        time_p50_ns,
        time_p75_ns,
        time_p90_ns,
        time_p99_ns
    from counted
)

select *
from access_times
order by device, kind
