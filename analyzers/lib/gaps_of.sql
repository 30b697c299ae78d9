-- question: How long is it from each request of one role to its next?
-- grain: a macro that makes a table; one row per request of the role, null for the first
-- reads: requests
--
-- The window has no order on purpose: requests are stored in queue order (checks/queue_order), and
-- so it streams, which a window partitioned by role cannot.
create macro gaps_of(wanted_role) as table
    select
        requests.role,
        requests.queue_ns - lag(requests.queue_ns) over () as gap_ns
    from requests
    where requests.role = wanted_role and requests.queue_ns is not null;
