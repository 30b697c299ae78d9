-- question: Which files are read and written most?
-- grain: one row per path, the busiest first
-- reads: file_operations, files
-- parameter: file_count (files, 1 to 10000, default 20): rows at the most
-- column: path: of the file
-- column: kind: file, directory or other
-- column: read_bytes, write_bytes: bytes read and written
-- column: moved_bytes: both together
-- column: call_count: operations that name it or a handle of it
-- column: sync_count: calls of fsync, fdatasync, sync_file_range and msync
-- column: size_bytes: before the first operation; null if it was not there or is not known
with uses as (
    select
        file_id,
        coalesce(sum(done_bytes) filter (where operation = 'read'), 0)::bigint as read_bytes,
        coalesce(sum(done_bytes) filter (where operation = 'write'), 0)::bigint as write_bytes,
        count(*) as call_count,
        count(*) filter (
            where operation in ('fsync', 'fdatasync', 'sync_file_range', 'msync')
        ) as sync_count
    from file_operations
    where file_id is not null
    group by file_id
),

busiest as (
    select
        files.path,
        files.kind,
        uses.read_bytes,
        uses.write_bytes,
        uses.call_count,
        uses.sync_count,
        files.size_bytes,
        uses.read_bytes + uses.write_bytes as moved_bytes
    from uses
    inner join files on uses.file_id = files.file_id
    order by moved_bytes desc, uses.call_count desc, files.path asc
    limit $file_count
)

select *
from busiest
order by moved_bytes desc, call_count desc, path asc
