-- question: How fast is each step of a personality under each setting, and how much do runs differ?
-- grain: one row per personality, target, setting and step
-- reads: file_runs
-- column: personality, target, threads, files, io_bytes, settings, step: as in file_runs
-- column: run_count: repeats, without copies
-- column: copy_count: repeats that are the same run again, by is_copy of file_runs; in nothing else
-- column: outlier_count: repeats that stand out; they count as all others
-- column: unsteady_count: of `all`, repeats that were not steady in the first half of their time,
-- or too short
-- column: failed: steps that failed, of all repeats
-- column: steps_per_second: mean of the repeats
-- column: deviation_per_second: standard deviation of the sample; null for one repeat
-- column: low_per_second, high_per_second: the slowest and the fastest repeat
-- column: rate_low_per_second, rate_high_per_second: 95 % confidence interval of steps_per_second
-- by Student's t over the repeats; of one run that of its batch means, of `all` only, and none
-- where its warm-up weighs so much that its rate is outside
-- column: bytes_per_second: mean of the repeats
-- column: mean_ns: mean latency, of the repeats by their steps
-- column: low_ns, high_ns: the least and the largest mean latency of a repeat
-- column: p99_ns: the largest of the repeats; null for all
-- column: time_ratio: mean share of the time of all steps
with repeats as (
    select
        *,
        count(*) filter (where is_copy) over (
            partition by personality, target, threads, files, io_bytes, settings, step
        ) as copy_count
    from file_runs
    qualify not is_copy
),

points as (
    select
        personality,
        target,
        threads,
        files,
        io_bytes,
        settings,
        step,
        count(*) as run_count,
        copy_count,
        count(*) filter (where is_outlier) as outlier_count,
        count(*) filter (where step = 'all' and steady_from_ns is null) as unsteady_count,
        cast(sum(failed) as bigint) as failed,
        avg(steps_per_second) as steps_per_second,
        stddev_samp(steps_per_second) as deviation_per_second,
        any_value(batch_low_per_second) as batch_low_per_second,
        any_value(batch_high_per_second) as batch_high_per_second,
        min(steps_per_second) as low_per_second,
        max(steps_per_second) as high_per_second,
        avg(bytes_per_second) as bytes_per_second,
        sum(mean_ns * steps) / nullif(sum(steps), 0) as mean_ns,
        min(mean_ns) filter (where steps > 0) as low_ns,
        max(mean_ns) filter (where steps > 0) as high_ns,
        max(p99_ns) as p99_ns,
        avg(time_ratio) as time_ratio
    from repeats
    group by all
),

intervals as (
    select
        points.* exclude (batch_low_per_second, batch_high_per_second),
        case
            when run_count = 1 then batch_low_per_second
            else greatest(
                steps_per_second - t95(run_count - 1) * deviation_per_second / sqrt(run_count), 0
            )
        end as rate_low_per_second,
        case
            when run_count = 1 then batch_high_per_second
            else
                steps_per_second + t95(run_count - 1) * deviation_per_second / sqrt(run_count)
        end as rate_high_per_second
    from points
)

select *
from intervals
order by personality, target, threads, files nulls first, io_bytes nulls first, settings, step
