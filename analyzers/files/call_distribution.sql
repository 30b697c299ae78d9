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
with buckets as (
    select
        file_runs.personality,
        file_runs.target,
        file_runs.threads,
        file_runs.settings,
        sweep_operations.step,
        log_bucket(sweep_operations.end_ns - sweep_operations.start_ns, $octave_bits) as bucket,
        count(*) as call_count
    from sweep_operations
    inner join file_runs
        on sweep_operations.run_id = file_runs.run_id and file_runs.step = 'all'
    where
        sweep_operations.is_timed
        and sweep_operations.is_expected
        and sweep_operations.step is not null
    group by all
),

call_distribution as (
    select
        personality,
        target,
        threads,
        settings,
        step,
        log_bucket_low(bucket, $octave_bits) as low_ns,
        log_bucket_low(bucket + 1, $octave_bits) as high_ns,
        call_count,
        sum(call_count)
            over (
                partition by personality, target, threads, settings, step order by bucket
            )
        / sum(call_count) over (
            partition by personality, target, threads, settings, step
        ) as smaller_ratio
    from buckets
)

select *
from call_distribution
order by personality, target, threads, settings, step, low_ns
