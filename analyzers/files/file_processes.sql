-- question: Which processes use files, and how?
-- grain: one row per name of a process
-- reads: file_operations
-- column: process: name; null where it is not known
-- column: call_count: file operations
-- column: read_bytes, write_bytes: bytes read and written
-- column: sync_count: calls of fsync, fdatasync, sync_file_range, msync and sync
-- column: busy_ns: time spent in all these calls
with processes as (
    select
        process,
        count(*) as call_count,
        coalesce(sum(done_bytes) filter (where operation = 'read'), 0)::bigint as read_bytes,
        coalesce(sum(done_bytes) filter (where operation = 'write'), 0)::bigint as write_bytes,
        count(*) filter (
            where operation in ('fsync', 'fdatasync', 'sync_file_range', 'msync', 'sync')
        ) as sync_count,
        coalesce(sum(end_ns - start_ns), 0)::bigint as busy_ns
    from file_operations
    group by process
)

select *
from processes
order by call_count desc, process asc nulls last
