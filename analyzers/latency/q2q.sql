-- question: How long is it from one request to the next of the same role, operation and preflush?
-- grain: one row per role, operation and is_preflush, in the columns of `latency`; as queued
-- reads: requests
-- parameter: octave_bits (bits, 0 to 16, default 7): 2^bits buckets an octave hold the gaps
-- column: step: q2q
-- column: role, operation, is_preflush: of both requests
-- column: request_count: gaps
-- column: latency_min_ns, latency_avg_ns, latency_max_ns: exact
-- column: latency_p50_ns, latency_p90_ns, latency_p99_ns, latency_p999_ns: by log_bucket
with gaps as (
    select
        role,
        operation,
        is_preflush,
        queue_ns - lag(queue_ns)
            over (partition by role, operation, is_preflush order by request_id) as gap_ns
    from requests
    where queue_ns is not null
),

buckets as (
    select
        struct_pack(role, operation, is_preflush) as kind,
        log_bucket(gap_ns, $octave_bits) as bucket,
        count(*) as bucket_count,
        sum(gap_ns) as sum_ns,
        max(gap_ns) as max_ns,
        min(gap_ns) as min_ns
    from gaps
    where gap_ns is not null
    group by all
),

ranked as (
    select
        buckets.*,
        sum(bucket_count) over (partition by kind order by bucket) as upto_count,
        sum(bucket_count) over (partition by kind) as total_count
    from buckets
),

q2q as (
    select
        'q2q' as step,
        kind.*,
        sum(bucket_count)::bigint as request_count,
        min(min_ns) as latency_min_ns,
        sum(sum_ns) / sum(bucket_count) as latency_avg_ns,
        min(max_ns) filter (where upto_count >= 0.5 * total_count) as latency_p50_ns,
        min(max_ns) filter (where upto_count >= 0.9 * total_count) as latency_p90_ns,
        min(max_ns) filter (where upto_count >= 0.99 * total_count) as latency_p99_ns,
        min(max_ns) filter (where upto_count >= 0.999 * total_count) as latency_p999_ns,
        max(max_ns) as latency_max_ns
    from ranked
    group by all
)

select *
from q2q
order by role, operation, is_preflush
