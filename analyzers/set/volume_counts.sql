-- question: How are the volumes of a set distributed over each measure?
-- grain: one row per measure and bar with a volume: parts of octaves, or equal parts of shares
-- reads: volume_values
-- parameter: octave_bars (bars, 1 to 16, default 1): of an octave
-- parameter: share_bars (bars, 1 to 100, default 20): from 0 to 1
-- column: measure: a column of volume_measures
-- column: low, high: from which value on, and below which; the last bar of shares has 1, too
-- column: volume_count: volumes in it
with placed as (
    select
        measure,
        measure like '%_ratio' as is_ratio,
        case
            when measure like '%_ratio' then least(floor(measured * $share_bars), $share_bars - 1)
            else floor(log2(greatest(measured, 1)) * $octave_bars)
        end as bar
    from volume_values
),

counted as (
    select
        measure,
        is_ratio,
        bar,
        count(*) as volume_count
    from placed
    group by all
),

volume_counts as (
    select
        measure,
        case when is_ratio then bar / $share_bars else 2 ** (bar / $octave_bars) end as low,
        case when is_ratio then (bar + 1) / $share_bars else 2 ** ((bar + 1) / $octave_bars) end
            as high,
        volume_count
    from counted
)

select *
from volume_counts
order by measure, low
