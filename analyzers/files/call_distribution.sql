-- question: How are the times of the calls of each step of a personality distributed?
-- grain: one row per personality, target, setting, step and log-linear bucket of times; calls of
-- the measured time that ended as they should, of all repeats whose operations were kept
-- reads: file_runs, sweep_operations
-- parameter: octave_bits (bits, 0 to 16, default 2): 2^bits buckets an octave
-- column: personality, target, threads, settings: as in file_runs
-- column: step: whose call it is: a step such as read_file has several calls for a large file
-- column: low_ns, high_ns: smallest time of the bucket and of the next one
-- column: call_count: calls in the bucket
-- column: smaller_ratio: share of the step's calls in this bucket or a lower one
with times as (
    select
        file_runs.personality,
        file_runs.target,
        file_runs.threads,
        file_runs.settings,
        sweep_operations.step,
        sweep_operations.end_ns - sweep_operations.start_ns as value
    from sweep_operations
    inner join file_runs
        on sweep_operations.run_id = file_runs.run_id and file_runs.step = 'all'
    where
        sweep_operations.is_timed
        and sweep_operations.is_expected
        and sweep_operations.step is not null
),

call_distribution as (
    select
        personality,
        target,
        threads,
        settings,
        step,
        low as low_ns,
        high as high_ns,
        value_count as call_count,
        smaller_ratio
    from distribution_of(times, $octave_bits)
)

select *
from call_distribution
order by personality, target, threads, settings, step, low_ns
