-- question: Which streams of reads and writes does a trace have, each with a number of its own?
-- grain: a macro that makes a table; one row per device, role and operation
-- reads: requests
--
-- A sort that carries a stream's number instead of three words takes a third of the time. Numbers
-- may differ from one use to the next: a query keeps them in a materialized step.
create macro numbered_streams() as table
    select
        requests.device,
        requests.role,
        coalesce(requests.operation, 'unknown') as operation,
        count(*) as request_count,
        (row_number() over ())::int as stream_number
    from requests
    where
        (requests.operation in ('read', 'write') or requests.operation is null)
        and requests.length_bytes > 0
    group by all;
