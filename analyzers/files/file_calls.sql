-- question: How often is each file operation called, what does it move, and how long does it take?
-- grain: one row per operation
-- reads: file_operations
-- parameter: octave_bits (bits, 0 to 16, default 7): 2^bits buckets an octave hold the latencies
-- column: operation: as in file_operations
-- column: call_count: calls
-- column: error_count: of these, calls that ended with an error
-- column: moved_bytes: bytes read or written
-- column: latency_avg_ns, latency_max_ns: exact, of the calls whose end is known
-- column: latency_p50_ns, latency_p99_ns: nearest rank, as the largest latency of its bucket
with buckets as (
    select
        operation,
        log_bucket(end_ns - start_ns, $octave_bits) as bucket,
        count(*) as bucket_count,
        count(*) filter (where error != 0) as error_count,
        coalesce(
            sum(done_bytes) filter (where operation in ('read', 'write')), 0
        ) as moved_bytes,
        sum(end_ns - start_ns) as sum_ns,
        max(end_ns - start_ns) as max_ns
    from file_operations
    group by all
),

ranked as (
    select
        buckets.*,
        sum(bucket_count) filter (where bucket is not null) over (
            partition by operation order by bucket nulls last
        ) as upto_count,
        sum(bucket_count) filter (where bucket is not null) over (
            partition by operation
        ) as timed_count
    from buckets
),

calls as (
    select
        operation,
        sum(bucket_count)::bigint as call_count,
        sum(error_count)::bigint as error_count,
        sum(moved_bytes)::bigint as moved_bytes,
        sum(sum_ns) / max(timed_count) as latency_avg_ns,
        min(max_ns) filter (where upto_count >= 0.5 * timed_count) as latency_p50_ns,
        min(max_ns) filter (where upto_count >= 0.99 * timed_count) as latency_p99_ns,
        max(max_ns) as latency_max_ns
    from ranked
    group by operation
)

select *
from calls
order by call_count desc, operation asc
