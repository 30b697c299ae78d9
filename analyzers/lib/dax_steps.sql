-- question: What does DAX save or cost at each step of a personality, beside another target?
-- grain: a view; one row per personality, setting, DAX target, other target and step
-- reads: file_runs
-- column: personality, threads, files, io_bytes, settings: as in file_runs
-- column: target, other: the target with DAX, and the one without that it is compared with
-- column: step: as in file_runs, without all
-- column: mean_ns, other_mean_ns: mean latency of the step on both, of the repeats by their steps,
-- without copies
-- column: time_ratio, other_time_ratio: share of the step in the time of all steps on both
-- column: saved_ratio: what DAX saves at the step, of the time of a step of any kind on the other
-- target; below 0 it costs. Over all steps it adds up to 1 less the times of both divided.
create view dax_steps as
with sums as (
    select
        personality,
        target,
        is_dax,
        threads,
        files,
        io_bytes,
        settings,
        step,
        nullif(sum(steps), 0) as steps,
        sum(mean_ns * steps) as time_ns
    from file_runs
    where not is_copy
    group by all
),

times as (
    select
        sums.*,
        max(steps) filter (where step = 'all') over point as all_steps,
        nullif(max(time_ns) filter (where step = 'all') over point, 0) as all_ns
    from sums
    window point as (partition by personality, target, threads, settings)
)

select
    dax.* exclude (is_dax, steps, time_ns, all_steps, all_ns),
    dax.time_ns / dax.steps as mean_ns,
    other.target as other,
    other.time_ns / other.steps as other_mean_ns,
    dax.time_ns / dax.all_ns as time_ratio,
    other.time_ns / other.all_ns as other_time_ratio,
    (other.time_ns / other.all_steps - dax.time_ns / dax.all_steps)
    / (other.all_ns / other.all_steps) as saved_ratio
from times as dax
inner join times as other
    on
        dax.personality = other.personality
        and dax.threads = other.threads
        and dax.settings = other.settings
        and dax.step = other.step
where dax.is_dax and not other.is_dax and dax.step != 'all';
