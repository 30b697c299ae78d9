-- question: How long does each file operation take when the trace is replayed?
-- grain: one row per replay and operation; calls of the trace, not the ends of processes
-- reads: file_completions
-- parameter: octave_bits (bits, 0 to 16, default 7): 2^bits buckets an octave hold the latencies
-- column: replay: name of the replay
-- column: operation: as in file_operations
-- column: call_count: calls
-- column: unexpected_count: of these, calls that did not end as they did in the trace
-- column: moved_bytes: bytes read or written
-- column: latency_avg_ns, latency_max_ns: exact
-- column: latency_p50_ns, latency_p99_ns: nearest rank, as the largest latency of its bucket
with buckets as (
    select
        replay,
        operation,
        log_bucket(end_ns - start_ns, $octave_bits) as bucket,
        count(*) as bucket_count,
        count(*) filter (where not is_expected) as unexpected_count,
        coalesce(sum(done_bytes), 0) as moved_bytes,
        sum(end_ns - start_ns) as sum_ns,
        max(end_ns - start_ns) as max_ns
    from file_completions
    where is_timed
    group by all
),

ranked as (
    select
        buckets.*,
        sum(bucket_count) over (partition by replay, operation order by bucket) as upto_count,
        sum(bucket_count) over (partition by replay, operation) as total_count
    from buckets
),

calls as (
    select
        replay,
        operation,
        sum(bucket_count)::bigint as call_count,
        sum(unexpected_count)::bigint as unexpected_count,
        sum(moved_bytes)::bigint as moved_bytes,
        sum(sum_ns) / sum(bucket_count) as latency_avg_ns,
        min(max_ns) filter (where upto_count >= 0.5 * total_count) as latency_p50_ns,
        min(max_ns) filter (where upto_count >= 0.99 * total_count) as latency_p99_ns,
        max(max_ns) as latency_max_ns
    from ranked
    group by replay, operation
)

select *
from calls
order by replay asc, call_count desc, operation asc
