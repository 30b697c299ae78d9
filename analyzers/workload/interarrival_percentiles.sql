-- question: What are the typical and the extreme gaps between requests of a role?
-- grain: one row per role
-- reads: requests
-- parameter: octave_bits (bits, 0 to 16, default 7): 2^bits buckets an octave hold the gaps
-- column: role: role of both requests
-- column: gap_count: gaps: one less than the role's requests
-- column: gap_min_ns, gap_avg_ns, gap_max_ns: exact
-- column: gap_p50_ns, gap_p90_ns, gap_p99_ns, gap_p999_ns: nearest rank, largest gap of its bucket
with buckets as (
    select
        gaps.role,
        log_bucket(gaps.gap_ns, $octave_bits) as bucket,
        count(*) as bucket_count,
        sum(gaps.gap_ns) as bucket_sum_ns,
        min(gaps.gap_ns) as bucket_min_ns,
        max(gaps.gap_ns) as bucket_max_ns
    from gaps
    group by all
),

ranked as (
    select
        buckets.*,
        sum(buckets.bucket_count) over (
            partition by buckets.role order by buckets.bucket rows unbounded preceding
        ) as rank_count,
        sum(buckets.bucket_count) over (partition by buckets.role) as gap_count
    from buckets
),

percentiles as (
    select
        ranked.role,
        any_value(ranked.gap_count)::bigint as gap_count,
        min(ranked.bucket_min_ns) as gap_min_ns,
        sum(ranked.bucket_sum_ns) / any_value(ranked.gap_count) as gap_avg_ns,
        min(ranked.bucket_max_ns) filter (where rank_count >= 0.5 * gap_count) as gap_p50_ns,
        min(ranked.bucket_max_ns) filter (where rank_count >= 0.9 * gap_count) as gap_p90_ns,
        min(ranked.bucket_max_ns) filter (where rank_count >= 0.99 * gap_count) as gap_p99_ns,
        min(ranked.bucket_max_ns) filter (where rank_count >= 0.999 * gap_count) as gap_p999_ns,
        max(ranked.bucket_max_ns) as gap_max_ns
    from ranked
    group by ranked.role
)

select *
from percentiles
order by role
