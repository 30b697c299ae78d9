-- question: What is counted of each completion of the replays (replay_buckets.py)?
-- grain: one row per completion of these requests; no_value() for null
-- reads: requests, completions
-- column: replay_number, status_number, role_number, operation_number: as in replays_to_count
-- column: has_error: 1 when the request ended with an error
-- column: intended_ns, complete_ns: of the completion
-- column: submit_ns, length_bytes: of requests of the trace that were done
-- column: late, service, response, traced: of the same, as in the view replay_times
--
-- $first_id and $last_id cut the trace, so that the join of each part fits into memory.
with queued as (
    select
        request_id,
        coalesce(enum_code(role::role_word)::integer + 1, 0) as role_number,
        coalesce(enum_code(operation::operation_word)::integer + 1, 0) as operation_number,
        length_bytes,
        case when merged_into is null then complete_ns - coalesce(issue_ns, queue_ns) end as traced
    from requests
    where request_id between $first_id and $last_id
),

submitted as (
    select
        *,
        coalesce(enum_code(replay::replay_word)::integer + 1, 0) as replay_number,
        coalesce(enum_code(status::status_word)::integer + 1, 0) as status_number,
        status = 'done' as is_done,
        intended_ns is not null as is_timed
    from completions
    where request_id between $first_id and $last_id
),

joined as (
    select
        submitted.*,
        queued.role_number,
        queued.operation_number,
        queued.length_bytes,
        queued.traced,
        submitted.is_done and queued.request_id is not null as is_counted
    from submitted
    left join queued on submitted.request_id = queued.request_id
),

replayed_rows_to_count as (
    select
        replay_number,
        status_number,
        coalesce(role_number, 0) as role_number,
        coalesce(operation_number, 0) as operation_number,
        coalesce((error != 0)::bigint, 0) as has_error,
        coalesce(intended_ns, no_value()) as intended_ns,
        coalesce(complete_ns, no_value()) as complete_ns,
        case when is_counted then submit_ns else no_value() end as submit_ns,
        case when is_counted then length_bytes else no_value() end as length_bytes,
        coalesce(
            case when is_counted and is_timed then greatest(submit_ns - intended_ns, 0) end,
            no_value()
        ) as late,
        coalesce(case when is_counted then complete_ns - submit_ns end, no_value()) as service,
        coalesce(
            case when is_counted and is_timed then greatest(complete_ns - intended_ns, 0) end,
            no_value()
        ) as response,
        coalesce(case when is_counted then traced end, no_value()) as traced
    from joined
)

select *
from replayed_rows_to_count
