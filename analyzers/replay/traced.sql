-- question: How long did the requests of each replay take when they were traced?
-- grain: one row per replay, role and operation; requests that the replay has done
-- reads: requests, completions
-- column: replay: name of the replay
-- column: role, operation: of the requests
-- column: request_count: requests with a completion in the trace
-- column: time_avg_ns: from issue to completion (D2C), from the queueing where no issue was seen
-- column: time_p50_ns, time_p99_ns: nearest rank, as the largest time of its bucket
-- column: first_ns, last_ns: when the first of them was queued and the last completed
with done as (
    select distinct
        completions.replay,
        requests.*,
        requests.complete_ns - coalesce(requests.issue_ns, requests.queue_ns) as time_ns
    from completions inner join requests on completions.request_id = requests.request_id
    where completions.status = 'done' and requests.merged_into is null
),

buckets as (
    select
        replay,
        role,
        operation,
        log_bucket(time_ns, 7) as bucket,
        count(*) as bucket_count,
        sum(time_ns) as sum_ns,
        max(time_ns) as max_ns,
        min(queue_ns) as first_ns,
        max(complete_ns) as last_ns
    from done
    where time_ns >= 0
    group by all
),

ranked as (
    select
        buckets.*,
        sum(bucket_count) over (partition by replay, role, operation order by bucket) as upto_count,
        sum(bucket_count) over (partition by replay, role, operation) as total_count
    from buckets
),

traced as (
    select
        replay,
        role,
        operation,
        sum(bucket_count)::bigint as request_count,
        sum(sum_ns) / sum(bucket_count) as time_avg_ns,
        min(max_ns) filter (where upto_count >= 0.5 * total_count) as time_p50_ns,
        min(max_ns) filter (where upto_count >= 0.99 * total_count) as time_p99_ns,
        min(first_ns) as first_ns,
        max(last_ns) as last_ns
    from ranked
    group by all
)

select *
from traced
order by replay, role, operation
