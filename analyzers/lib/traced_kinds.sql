-- question: How many requests of each kind does the trace have?
-- grain: one row per kind
-- reads: requests
-- parameter: issued_only (flag, 0 to 1, default 0): 1 leaves out what was merged or never issued
-- column: kind: of the request
-- column: traced_count: requests of the trace
with kinds as (
    select
        request_kind(operation, length_bytes, is_fua, is_preflush) as kind,
        count(*) as traced_count
    from requests
    where $issued_only = 0 or (merged_into is null and issue_ns is not null)
    group by kind
)

select *
from kinds
order by kind
