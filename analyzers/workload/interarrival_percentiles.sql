-- question: What are the typical and the extreme gaps between requests of a role?
-- grain: one row per role
-- reads: requests
-- counted: request_gaps
-- parameter: octave_bits (bits, 0 to 16, default 7): 2^bits buckets an octave hold the gaps
-- column: role: role of both requests
-- column: gap_count: gaps: one less than the role's requests
-- column: gap_min_ns, gap_avg_ns, gap_max_ns: exact
-- column: gap_p50_ns, gap_p90_ns, gap_p99_ns, gap_p999_ns: nearest rank, largest gap of its bucket
with times as (
    select
        role,
        bucket_count,
        bucket_sum,
        bucket_min,
        bucket_max
    from request_gaps
    where gap = 'of_role'
),

percentiles as (
    select
        role,
        value_count as gap_count,
        value_min as gap_min_ns,
        value_avg as gap_avg_ns,
        value_p50 as gap_p50_ns,
        value_p90 as gap_p90_ns,
        value_p99 as gap_p99_ns,
        value_p999 as gap_p999_ns,
        value_max as gap_max_ns
    from merged_percentiles_of(times, $octave_bits)
)

select *
from percentiles
order by role
