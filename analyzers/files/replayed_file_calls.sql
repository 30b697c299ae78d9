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
with done as (
    select
        replay,
        operation,
        is_expected,
        done_bytes,
        end_ns - start_ns as latency_ns
    from file_completions
    where is_timed
),

times as (
    select
        replay,
        operation,
        latency_ns as value
    from done
),

calls as (
    select
        replay,
        operation,
        count(*) as call_count,
        count(*) filter (where not is_expected) as unexpected_count,
        coalesce(sum(done_bytes), 0)::bigint as moved_bytes
    from done
    group by replay, operation
),

replayed_file_calls as (
    select
        calls.replay,
        calls.operation,
        calls.call_count,
        calls.unexpected_count,
        calls.moved_bytes,
        times.value_avg as latency_avg_ns,
        times.value_p50 as latency_p50_ns,
        times.value_p99 as latency_p99_ns,
        times.value_max as latency_max_ns
    from calls
    left join percentiles_of(times, $octave_bits) as times
        on calls.replay = times.replay and calls.operation = times.operation
)

select *
from replayed_file_calls
order by replay asc, call_count desc, operation asc
