-- question: How much faster is a target with DAX than one without it?
-- grain: a view; one row per personality, setting, DAX target and other target
-- reads: file_runs
-- column: personality, threads, files, io_bytes, settings: as in file_runs
-- column: target, other: the target with DAX, and the one without that it is compared with
-- column: run_count: repeats, of the target with fewer; repeats without a step are not counted
-- column: ratio: geometric mean of the rates with DAX by that without; null where nothing was done
-- column: ratio_low, ratio_high: 95 % confidence interval over the repeats (Student's t of the
-- logarithms, with the degrees of freedom of the target with fewer repeats); null for one repeat
create view dax_ratios as
with repeats as (
    select
        personality,
        target,
        is_dax,
        threads,
        files,
        io_bytes,
        settings,
        count(nullif(steps_per_second, 0)) as run_count,
        avg(ln(nullif(steps_per_second, 0))) as log_rate,
        var_samp(ln(nullif(steps_per_second, 0)))
        / nullif(count(nullif(steps_per_second, 0)), 0) as log_error
    from file_runs
    where step = 'all'
    group by all
),

pairs as (
    select
        dax.* exclude (is_dax, log_rate, log_error, run_count),
        other.target as other,
        least(dax.run_count, other.run_count) as run_count,
        dax.log_rate - other.log_rate as log_ratio,
        t95(least(dax.run_count, other.run_count) - 1)
        * sqrt(dax.log_error + other.log_error) as log_range
    from repeats as dax
    inner join repeats as other
        on
            dax.personality = other.personality
            and dax.threads = other.threads
            and dax.settings = other.settings
    where dax.is_dax and not other.is_dax
)

select
    pairs.* exclude (log_ratio, log_range),
    exp(log_ratio) as ratio,
    exp(log_ratio - log_range) as ratio_low,
    exp(log_ratio + log_range) as ratio_high
from pairs;
