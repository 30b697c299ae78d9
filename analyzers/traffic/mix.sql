-- question: Which operations does each role queue, with which flags?
-- grain: one row per role, operation and combination of flags; requests as queued
-- reads: requests
-- column: role: role of the requests
-- column: operation: read, write, flush, discard, write_zeroes, zone, other or unknown
-- column: is_preflush: cache flush before the data
-- column: is_fua: forced unit access
-- column: is_sync: synchronous
-- column: is_meta: file system metadata
-- column: is_readahead: readahead
-- column: request_count: requests as queued
-- column: request_bytes: bytes asked for
with mix as (
    select
        requests.role,
        coalesce(requests.operation, 'unknown') as operation,
        requests.is_preflush,
        requests.is_fua,
        requests.is_sync,
        requests.is_meta,
        requests.is_readahead,
        count(*) as request_count,
        sum(requests.length_bytes)::bigint as request_bytes
    from requests
    group by all
)

select *
from mix
order by
    role, operation, is_preflush, is_fua, is_sync, is_meta, is_readahead
