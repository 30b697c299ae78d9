-- question: Which requests did the replays submit, and until when?
-- grain: one row
-- reads: completions
-- column: first_id, last_id: smallest and largest request_id
-- column: replays, statuses, roles, operations: words, each by its number from 1
-- column: last_submits_ns: when the last request that was done was submitted, by replay
with spans as (
    select
        replay::replay_word as replay,
        min(request_id) as first_id,
        max(request_id) as last_id,
        max(submit_ns) filter (where status = 'done') as last_ns
    from completions
    group by replay
),

replays_to_count as (
    select
        min(first_id) as first_id,
        max(last_id) as last_id,
        enum_range(null::replay_word)::varchar[] as replays,
        enum_range(null::status_word)::varchar[] as statuses,
        enum_range(null::role_word)::varchar[] as roles,
        enum_range(null::operation_word)::varchar[] as operations,
        list(coalesce(last_ns, 0) order by enum_code(replay)) as last_submits_ns
    from spans
)

select *
from replays_to_count
