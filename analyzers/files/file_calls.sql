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
with times as (
    select
        operation,
        end_ns - start_ns as value
    from file_operations
),

calls as (
    select
        operation,
        count(*) as call_count,
        count(*) filter (where error != 0) as error_count,
        coalesce(sum(done_bytes) filter (where operation in ('read', 'write')), 0)::bigint
            as moved_bytes
    from file_operations
    group by operation
),

file_calls as (
    select
        calls.operation,
        calls.call_count,
        calls.error_count,
        calls.moved_bytes,
        times.value_avg as latency_avg_ns,
        times.value_p50 as latency_p50_ns,
        times.value_p99 as latency_p99_ns,
        times.value_max as latency_max_ns
    from calls
    left join percentiles_of(times, $octave_bits) as times on calls.operation = times.operation
)

select *
from file_calls
order by call_count desc, operation asc
