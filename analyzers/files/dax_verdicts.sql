-- question: For which workloads does DAX pay, by how much, and at which step?
-- grain: one row per personality, setting, DAX target and other target
-- reads: file_runs, file_comparisons
-- parameter: least_percent (percent, 0 to 100, default 5): smaller differences do not count
-- column: personality, target, threads, files, io_bytes, settings, other: as in dax_ratios
-- column: run_count, ratio, ratio_low, ratio_high, corrected_p_value: as in dax_ratios
-- column: verdict: pays, does not pay (the p-value, corrected for all comparisons, is below 0.05),
-- no difference (surely below least_percent) or not decided
-- column: step: where DAX saves most if it is faster, costs most if it is slower
-- column: saved_ratio, time_ratio, other_time_ratio: of that step, as in dax_steps
-- column: mean_ns, other_mean_ns: of that step, as in dax_steps
with judged as (
    select
        dax_ratios.*,
        case
            when ratio_low is null then 'not decided'
            when corrected_p_value < 0.05 and ratio >= 1 + $least_percent / 100 then 'pays'
            when corrected_p_value < 0.05 and 1 / ratio >= 1 + $least_percent / 100
                then 'does not pay'
            when
                greatest(ratio_high, 1 / ratio_low) <= 1 + $least_percent / 100
                then 'no difference'
            else 'not decided'
        end as verdict
    from dax_ratios
),

ranked as (
    select
        judged.*,
        dax_steps.step,
        dax_steps.saved_ratio,
        dax_steps.time_ratio,
        dax_steps.other_time_ratio,
        dax_steps.mean_ns,
        dax_steps.other_mean_ns,
        row_number() over (
            partition by
                judged.personality, judged.threads, judged.settings, judged.target, judged.other
            order by dax_steps.saved_ratio * sign(judged.ratio - 1) desc nulls last, dax_steps.step
        ) as place
    from judged
    left join dax_steps
        on
            judged.personality = dax_steps.personality
            and judged.threads = dax_steps.threads
            and judged.settings = dax_steps.settings
            and judged.target = dax_steps.target
            and judged.other = dax_steps.other
),

verdicts as (
    select ranked.* exclude (place)
    from ranked
    where place = 1
)

select *
from verdicts
order by personality, other, target, threads, files nulls first, io_bytes nulls first, settings
