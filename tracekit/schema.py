"""The trace folder's tables, version 1: the one contract between the stages.

Signed integers only and no timestamp types, so that DuckDB, pandas, Spark and Polars all read the
same values. `_ns` columns are nanoseconds since the trace start; sectors are 512 bytes.
"""

from __future__ import annotations

import pyarrow as pa

SCHEMA_VERSION = 1
SECTOR_BYTES = 512
BLOCK_BYTES = 4096
ROW_GROUP_ROWS = 1 << 20

ROLES = ("fs", "journal", "swap", "other", "unknown")
OPERATIONS = ("read", "write", "flush", "discard", "write_zeroes", "zone", "other")

TEXT = pa.dictionary(pa.int32(), pa.string())


def _field(name: str, kind: pa.DataType, meaning: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"meaning": meaning})


REQUESTS = pa.schema(
    [
        _field("request_id", pa.int64(), "position in queue order, from 0; joins completions"),
        _field("queue_ns", pa.int64(), "queued (Q)", nullable=True),
        _field("getrq_ns", pa.int64(), "request structure allocated (G)", nullable=True),
        _field("insert_ns", pa.int64(), "inserted into the scheduler (I)", nullable=True),
        _field("merge_ns", pa.int64(), "merged into another request (M or F)", nullable=True),
        _field("issue_ns", pa.int64(), "issued to the driver (first D)", nullable=True),
        _field(
            "transfer_ns",
            pa.int64(),
            "last byte transferred (last C with bytes); earlier than complete_ns by a cache flush",
            nullable=True,
        ),
        _field("complete_ns", pa.int64(), "completed (last C of any kind)", nullable=True),
        _field("device", TEXT, "whole device or volume"),
        _field("sector", pa.int64(), "first 512-byte sector, from the start of `device`"),
        _field("length_bytes", pa.int64(), "bytes transferred or discarded; 0 for an empty flush"),
        _field("operation", TEXT, "read, write, flush, discard, write_zeroes, zone or other"),
        _field("is_sync", pa.bool_(), "synchronous"),
        _field("is_meta", pa.bool_(), "file system metadata"),
        _field("is_fua", pa.bool_(), "forced unit access"),
        _field("is_preflush", pa.bool_(), "cache flush before the data"),
        _field("is_readahead", pa.bool_(), "readahead"),
        _field("process", TEXT, "name of the process that queued it", nullable=True),
        _field("pid", pa.int32(), "of the queue event"),
        _field("cpu", pa.int32(), "of the queue event"),
        _field("error", pa.int32(), "negative errno of the completion, 0 if none"),
        _field(
            "merged_into", pa.int64(), "request_id of the request that carried it", nullable=True
        ),
        _field("requeue_count", pa.int32(), "times the driver gave it back (R)"),
        _field("split_count", pa.int32(), "times it was split (X)"),
        _field(
            "depth", pa.int32(), "requests of the device not yet complete at queue, this included"
        ),
        _field("partition", TEXT, "major,minor it was remapped from (A)", nullable=True),
        _field("role", TEXT, "fs, journal, swap, other or unknown; set by classify"),
    ]
)

BLOCKS = pa.schema(
    [
        _field("device", TEXT, "whole device or volume"),
        _field("block", pa.int64(), "4 KiB block number, from the start of `device`"),
        _field("role", TEXT, "role of the requests that touched it"),
        _field("reads", pa.int64(), "read requests that touched it"),
        _field("writes", pa.int64(), "write requests that touched it"),
        _field("sectors", pa.int32(), "distinct 512-byte sectors of it that were touched, 1 to 8"),
        _field("first_ns", pa.int64(), "first access"),
        _field("last_ns", pa.int64(), "last access"),
        _field(
            "traffic_ratio", pa.float64(), "its share of all block touches of the trace, 0 to 1"
        ),
        _field("temperature", TEXT, "hot, warm or cold by the rule in trace.json"),
    ]
)

WORKING_SET = pa.schema(
    [
        _field("window_ns", pa.int64(), "start of the window"),
        _field("role", TEXT, "role"),
        _field("distinct_blocks", pa.int64(), "different 4 KiB blocks touched within the window"),
        _field("new_blocks", pa.int64(), "of these, blocks never touched before"),
    ]
)

PLACEMENT = pa.schema(
    [
        _field("base_profile", pa.string(), "device that holds everything not placed on NVM"),
        _field("nvm_profile", pa.string(), "device model of the NVM"),
        _field("placement", pa.string(), "base, fs, journal, swap, combined or optimal"),
        _field("coverage", pa.string(), "hottest, start or none: which blocks of a role go first"),
        _field("capacity_bytes", pa.int64(), "NVM capacity"),
        _field("elapsed_ns", pa.int64(), "sum of the service times of all requests"),
        _field("fs_bytes", pa.int64(), "NVM given to the file system at this point"),
        _field("journal_bytes", pa.int64(), "NVM given to the journal at this point"),
        _field("swap_bytes", pa.int64(), "NVM given to swap at this point"),
    ]
)

COMPLETIONS = pa.schema(
    [
        _field("request_id", pa.int64(), "request of the trace"),
        _field(
            "intended_ns",
            pa.int64(),
            "when the plan wanted it issued, from the run's start; null: as fast as possible",
            nullable=True,
        ),
        _field("submit_ns", pa.int64(), "when it was submitted, from the run's start"),
        _field("complete_ns", pa.int64(), "when its completion was seen, from the run's start"),
        _field("error", pa.int32(), "negative errno, 0 if none"),
        _field("target", pa.int32(), "index of the target in summary.json"),
        _field(
            "status",
            TEXT,
            "done, failed, skipped_read_only, skipped_out_of_range or skipped_unsupported",
        ),
    ]
)
