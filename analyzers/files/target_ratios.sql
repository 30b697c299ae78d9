-- question: How much faster is one target than another, under each setting, and is that sure?
-- grain: one row per personality, setting and two targets
-- reads: file_comparisons
-- column: personality, threads, files, io_bytes, settings, target, other: as in file_comparisons
-- column: run_count, is_paired, ratio, ratio_low, ratio_high: as in file_comparisons
-- column: p_value, corrected_p_value: as in file_comparisons
-- column: verdict: differs, no difference shown, or not decided (no repeats, or one did nothing)
with judged as (
    select
        file_comparisons.*,
        case
            when corrected_p_value is null then 'not decided'
            when corrected_p_value < 0.05 then 'differs'
            else 'no difference shown'
        end as verdict
    from file_comparisons
)

select *
from judged
order by personality, threads, files nulls first, io_bytes nulls first, settings, target, other
