-- question: How are the lateness and the response times of each replay distributed?
-- grain: one row per replay, measure, role and log-linear bucket of times; requests that were done
-- reads: requests, completions
-- counted: replay_measures
-- parameter: octave_bits (bits, 0 to 16, default 2): 2^bits buckets an octave
-- column: replay: name of the replay
-- column: measure: late (intended to submitted), service (submitted to completed), response
-- (intended to completed) or traced (issued, or else queued, to completed in the trace)
-- column: role: of the requests
-- column: low_ns, high_ns: smallest time of the bucket and of the next one
-- column: request_count: requests in the bucket
-- column: smaller_ratio: share of the role's requests in this bucket or a lower one
with times as (
    select
        replay,
        measure,
        role,
        bucket_count,
        bucket_min
    from replay_measures
),

replayed_distribution as (
    select
        replay,
        measure,
        role,
        low as low_ns,
        high as high_ns,
        value_count as request_count,
        smaller_ratio
    from merged_distribution_of(times, $octave_bits)
)

select *
from replayed_distribution
order by replay, measure, role, low_ns
