-- question: How large are the requests of each role and operation?
-- grain: one row per role, operation and length; requests as queued, flushes without data left out
-- reads: requests
-- column: role: role of the requests
-- column: operation: operation
-- column: length_bytes: bytes of one request
-- column: request_count: requests of this length
-- column: smaller_ratio: share of the role's and operation's requests that are this long or shorter
with sizes as (
    select
        requests.role,
        coalesce(requests.operation, 'unknown') as operation,
        requests.length_bytes,
        count(*) as request_count
    from requests
    where requests.length_bytes > 0
    group by all
),

cumulated as (
    select
        sizes.*,
        sum(sizes.request_count) over by_length / sum(sizes.request_count) over whole
            as smaller_ratio
    from sizes
    window
        by_length as (
            partition by sizes.role, sizes.operation order by sizes.length_bytes
            rows unbounded preceding
        ),
        whole as (partition by sizes.role, sizes.operation)
)

select *
from cumulated
order by role, operation, length_bytes
