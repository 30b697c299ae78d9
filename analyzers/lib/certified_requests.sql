-- question: When was each request of a plan issued, against the time at which it was due?
-- grain: a macro that makes a table; one row per record of the plan that was to run, or completion
-- that is not of it
-- reads: no table
-- column: plan_row: number in the plan, null: not of the plan
-- column: request_id, kind, length_bytes: of the request
-- column: status: what became of it, null: it has no completion
-- column: intended_ns: when the program says that it was due
-- column: due_ns: when it was due by the plan, or where that has no times by the program
-- column: issued_ns: when it was issued, null: it was not, or the kernel did not see it
-- column: merge_count, piece_count: of its I/Os in the kernel, as in the table observed
-- column: error_ns: how far from its time it was issued, to either side
-- column: is_out_of_order: one that stands before it was issued after it
--
-- The pieces of a request have its id: they are matched in the order of the plan. The clock is 0,
-- the program's, which hands requests over lead_ns before they are due; 1, the kernel's when it
-- queues; 2, the kernel's when it issues.
create macro certified_requests(plan, completions, observed, clock, lead_ns) as table
    with pieces as (
        select
            *,
            row_number() over (partition by request_id, target order by plan_row) as piece
        from query_table(plan)
    ),

    ended as (
        select
            *,
            row_number() over (
                partition by request_id, target order by submit_ns, complete_ns
            ) as piece
        from query_table(completions)
    ),

    seen as (
        select
            *,
            row_number() over (
                partition by request_id, target order by submit_ns, complete_ns
            ) as piece
        from query_table(observed)
    ),

    matched as (
        select
            pieces.plan_row,
            pieces.request_id,
            pieces.length_bytes,
            request_kind(
                pieces.operation, pieces.length_bytes, pieces.is_fua, pieces.is_preflush
            ) as kind,
            ended.status,
            ended.intended_ns,
            coalesce(pieces.due_ns, ended.intended_ns) as due_ns,
            seen.merge_count,
            seen.piece_count
            + seen.split_count
            - (pieces.operation = 'write' and pieces.is_preflush)::integer as piece_count,
            case
                when ended.status not in ('done', 'failed', 'unknown') then null
                when clock = 1 then seen.queue_ns
                when clock = 2 then seen.issue_ns
                else ended.submit_ns + lead_ns
            end as issued_ns
        from pieces
        full join ended
            on
                pieces.request_id = ended.request_id
                and pieces.target = ended.target
                and pieces.piece = ended.piece
        left join seen
            on
                ended.request_id = seen.request_id
                and ended.target = seen.target
                and ended.piece = seen.piece
    )

    select
        *,
        abs(issued_ns - due_ns) as error_ns,
        issued_ns < max(issued_ns) over (
            order by due_ns, plan_row rows between unbounded preceding and 1 preceding
        ) as is_out_of_order
    from matched;
