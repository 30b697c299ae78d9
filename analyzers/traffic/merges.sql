-- question: How many queued requests were merged, and how large are the requests that were issued?
-- grain: one row per role and operation; requests as queued
-- reads: requests
-- column: role, operation: of the requests
-- column: queued_count: requests as queued
-- column: merged_count: of these, merged into another request
-- column: issued_count: of these, issued to the driver themselves
-- column: issued_bytes: bytes of the issued requests, those merged into them included
-- column: issued_min_bytes, issued_avg_bytes, issued_max_bytes: bytes of one issued request
-- column: queued_per_issued: an issued request with those merged into it, on average
with merged as (
    select
        requests.merged_into as target_id,
        count(*) as merged_count,
        sum(requests.length_bytes)::bigint as merged_bytes
    from requests
    where requests.merged_into is not null and requests.issue_ns is not null
    group by requests.merged_into
),

queued as (
    select
        requests.role,
        coalesce(requests.operation, 'unknown') as operation,
        (requests.merged_into is not null) as is_merged,
        (requests.merged_into is null and requests.issue_ns is not null) as is_issued,
        1 + coalesce(merged.merged_count, 0) as whole_count,
        requests.length_bytes + coalesce(merged.merged_bytes, 0) as whole_bytes
    from requests
    left join merged on requests.request_id = merged.target_id
),

by_kind as (
    select
        queued.role,
        queued.operation,
        count(*) as queued_count,
        count(*) filter (where is_merged) as merged_count,
        count(*) filter (where is_issued) as issued_count,
        coalesce(sum(whole_bytes) filter (where is_issued), 0)::bigint as issued_bytes,
        min(whole_bytes) filter (where is_issued) as issued_min_bytes,
        avg(whole_bytes) filter (where is_issued) as issued_avg_bytes,
        max(whole_bytes) filter (where is_issued) as issued_max_bytes,
        avg(whole_count) filter (where is_issued) as queued_per_issued
    from queued
    group by queued.role, queued.operation
)

select *
from by_kind
order by role, operation
