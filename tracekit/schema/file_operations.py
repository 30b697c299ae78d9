"""The tables of a trace of file operations: `file_operations` and `files`."""

from __future__ import annotations

import pyarrow as pa

from tracekit.schema.field import TEXT, field

FILE_OPERATION_NAMES = (
    *("open", "create", "close", "read", "write", "fsync", "fdatasync", "sync_file_range"),
    *("stat", "rename", "link", "unlink", "mkdir", "rmdir", "readdir", "truncate", "fallocate"),
    *("mmap", "munmap", "msync", "sync"),
)
"""In the order of the native enum."""

FILE_KINDS = ("file", "directory", "other")
EVIDENCE = (
    *("unknown", "absent", "snapshot", "unchanged", "stat", "seek", "end", "after", "reads"),
)
"""In the order of the native enum; what each means is said at the column."""

FILE_OPERATIONS = pa.schema(
    [
        field("operation_id", pa.int64(), meaning="position in the order of start, from 0"),
        field("start_ns", pa.int64(), meaning="the call began"),
        field(
            "end_ns",
            pa.int64(),
            meaning="the call returned; null: part of the row before (the write of a copy), or a"
            " close that no call made (the process ended or ran another program)",
            nullable=True,
        ),
        field("process", TEXT, meaning="name of the thread", nullable=True),
        field("pid", pa.int32(), meaning="process"),
        field("tid", pa.int32(), meaning="thread"),
        field("operation", TEXT, meaning=", ".join(FILE_OPERATION_NAMES)),
        field(
            "file_id",
            pa.int64(),
            meaning="file by the path it was opened or named by; null for sync of everything",
            nullable=True,
        ),
        field("other_file_id", pa.int64(), meaning="new name of rename and link", nullable=True),
        field(
            "handle",
            pa.int64(),
            meaning="one an open file description, which dup and fork share",
            nullable=True,
        ),
        field(
            "offset_bytes",
            pa.int64(),
            meaning="place in the file, also of reads and writes at the handle's own position",
            nullable=True,
        ),
        field(
            "length_bytes",
            pa.int64(),
            meaning="bytes asked for, new size of truncate; null for calls with several buffers",
            nullable=True,
        ),
        field("done_bytes", pa.int64(), meaning="bytes that were moved", nullable=True),
        field("is_direct", pa.bool_(), meaning="past the page cache (O_DIRECT)"),
        field("is_sync", pa.bool_(), meaning="durable at return (O_SYNC, O_DSYNC, MS_SYNC)"),
        field("is_append", pa.bool_(), meaning="writes go to the end (O_APPEND)"),
        field("is_truncate", pa.bool_(), meaning="the open cuts the file to nothing (O_TRUNC)"),
        field("is_exclusive", pa.bool_(), meaning="the open must make the file (O_EXCL)"),
        field("error", pa.int32(), meaning="errno of the call, 0 if none"),
    ]
)

FILES = pa.schema(
    [
        field("file_id", pa.int64(), meaning="number of the path; joins file_operations"),
        field("path", pa.string(), meaning="absolute, as recorded, or hashed part by part"),
        field("kind", TEXT, meaning="file, directory or other (device, pipe, /proc); else file"),
        field(
            "size_bytes",
            pa.int64(),
            meaning="before the first operation; null: absent, no file, or not known",
            nullable=True,
        ),
        field(
            "evidence",
            TEXT,
            meaning="of the size: snapshot (looked at before), unchanged (looked at after, not"
            " changed since), stat, seek or end (told by the trace before a change), after (size"
            " after, less what was added), reads (at least so large), absent (was not there),"
            " unknown",
        ),
    ]
)

FILE_COMPLETIONS = pa.schema(
    [
        field("operation_id", pa.int64(), meaning="of file_operations"),
        field("start_ns", pa.int64(), meaning="the call began, from the start of the run"),
        field("end_ns", pa.int64(), meaning="it returned"),
        field("operation", TEXT, meaning="as in file_operations"),
        field(
            "done_bytes",
            pa.int64(),
            meaning="bytes that were moved; null unless it read or wrote",
            nullable=True,
        ),
        field("error", pa.int32(), meaning="errno of the call, 0 if none"),
        field("is_expected", pa.bool_(), meaning="it ended as it did in the trace"),
        field("is_timed", pa.bool_(), meaning="a call of the trace, no end of a process"),
        field("thread", pa.int32(), meaning="thread of the plan"),
    ]
)
