-- question: How long is it from one flush of a role to its next?
-- grain: a macro that makes a table; one row per flush or preflush as queued, null for the first of
-- each role
-- reads: requests
create macro flush_intervals() as table
    select
        requests.role,
        requests.queue_ns - lag(requests.queue_ns) over (
            partition by requests.role order by requests.request_id
        ) as interval_ns
    from requests
    where requests.queue_ns is not null and (requests.operation = 'flush' or requests.is_preflush);
