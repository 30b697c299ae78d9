-- question: How much faster is a target with DAX than one without it?
-- grain: a view; one row per personality, setting, DAX target and other target
-- reads: file_comparisons, file_runs
-- column: personality, threads, files, io_bytes, settings: as in file_runs
-- column: target, other: the target with DAX, and the one without that it is compared with
-- column: run_count: repeats, of the target with fewer
-- column: ratio: geometric mean of the rates with DAX by that without; null where nothing was done
-- column: ratio_low, ratio_high, corrected_p_value: as in file_comparisons
create view dax_ratios as
with both_ways as (
    select file_comparisons.*
    from file_comparisons
    union all by name
    select
        file_comparisons.* exclude (target, other, ratio, ratio_low, ratio_high),
        other as target,
        target as other,
        1 / ratio as ratio,
        1 / ratio_high as ratio_low,
        1 / ratio_low as ratio_high
    from file_comparisons
),

kinds as (
    select distinct
        target,
        is_dax
    from file_runs
)

select
    both_ways.personality,
    both_ways.target,
    both_ways.threads,
    both_ways.files,
    both_ways.io_bytes,
    both_ways.settings,
    both_ways.other,
    both_ways.run_count,
    both_ways.ratio,
    both_ways.ratio_low,
    both_ways.ratio_high,
    both_ways.corrected_p_value
from both_ways
inner join kinds as dax on both_ways.target = dax.target and dax.is_dax
inner join kinds as plain on both_ways.other = plain.target and not plain.is_dax;
