-- question: How long is it from one request of a role to its next?
-- grain: one row per role and log-linear bucket of gaps between requests as queued
-- reads: requests
-- counted: request_gaps
-- parameter: octave_bits (bits, 0 to 16, default 3): 2^bits buckets an octave
-- column: role: role of both requests
-- column: low_ns: smallest gap of the bucket
-- column: high_ns: smallest gap of the next bucket
-- column: gap_count: gaps in the bucket
-- column: smaller_ratio: share of the role's gaps in this bucket or a lower one
with times as (
    select
        role,
        bucket_count,
        bucket_min
    from request_gaps
    where gap = 'of_role'
),

interarrival as (
    select
        role,
        low as low_ns,
        high as high_ns,
        value_count as gap_count,
        smaller_ratio
    from merged_distribution_of(times, $octave_bits)
)

select *
from interarrival
order by role, low_ns
