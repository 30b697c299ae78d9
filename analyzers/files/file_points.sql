-- question: How fast is each step of a personality under each setting, and how much do runs differ?
-- grain: one row per personality, target, setting and step
-- reads: file_runs
-- column: personality, target, threads, files, io_bytes, settings, step: as in file_runs
-- column: run_count: repeats
-- column: failed: steps that failed, of all repeats
-- column: steps_per_second: mean of the repeats
-- column: deviation_per_second: standard deviation of the sample; null for one repeat
-- column: low_per_second, high_per_second: the slowest and the fastest repeat
-- column: bytes_per_second: mean of the repeats
-- column: mean_ns: mean latency, of the repeats by their steps
-- column: low_ns, high_ns: the least and the largest mean latency of a repeat
-- column: p99_ns: the largest of the repeats; null for all
-- column: time_ratio: mean share of the time of all steps
with points as (
    select
        personality,
        target,
        threads,
        files,
        io_bytes,
        settings,
        step,
        count(*) as run_count,
        cast(sum(failed) as bigint) as failed,
        avg(steps_per_second) as steps_per_second,
        stddev_samp(steps_per_second) as deviation_per_second,
        min(steps_per_second) as low_per_second,
        max(steps_per_second) as high_per_second,
        avg(bytes_per_second) as bytes_per_second,
        sum(mean_ns * steps) / nullif(sum(steps), 0) as mean_ns,
        min(mean_ns) filter (where steps > 0) as low_ns,
        max(mean_ns) filter (where steps > 0) as high_ns,
        max(p99_ns) as p99_ns,
        avg(time_ratio) as time_ratio
    from file_runs
    group by all
)

select *
from points
order by personality, target, threads, files nulls first, io_bytes nulls first, settings, step
