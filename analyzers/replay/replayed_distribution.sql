-- question: How are the lateness and the response times of each replay distributed?
-- grain: one row per replay, measure, role and log-linear bucket of times; requests that were done
-- reads: requests, completions
-- parameter: octave_bits (bits, 0 to 16, default 2): 2^bits buckets an octave
-- column: replay: name of the replay
-- column: measure: late (intended to submitted), service (submitted to completed) or response
-- (intended to completed)
-- column: role: of the requests
-- column: low_ns, high_ns: smallest time of the bucket and of the next one
-- column: request_count: requests in the bucket
-- column: smaller_ratio: share of the role's requests in this bucket or a lower one
with buckets as (
    select
        replay,
        measure,
        role,
        log_bucket(time_ns, $octave_bits) as bucket,
        count(*) as request_count
    from replay_times
    group by all
),

replayed_distribution as (
    select
        replay,
        measure,
        role,
        log_bucket_low(bucket, $octave_bits) as low_ns,
        log_bucket_low(bucket + 1, $octave_bits) as high_ns,
        request_count,
        sum(request_count) over (partition by replay, measure, role order by bucket)
        / sum(request_count) over (partition by replay, measure, role) as smaller_ratio
    from buckets
)

select *
from replayed_distribution
order by replay, measure, role, low_ns
