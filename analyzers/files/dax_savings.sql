-- question: What does DAX save or cost at each step of each workload?
-- grain: one row per personality, setting, DAX target, other target and step
-- reads: file_runs
-- column: personality, target, threads, files, io_bytes, settings, other, step: as in dax_steps
-- column: mean_ns, other_mean_ns: mean latency of the step on both
-- column: time_ratio, other_time_ratio: share of the step in the time of all steps on both
-- column: saved_ratio: what DAX saves at the step, of the time of all steps on the other target
with savings as (
    select dax_steps.*
    from dax_steps
)

select *
from savings
order by
    personality, other, target, threads, files nulls first, io_bytes nulls first, settings, step
