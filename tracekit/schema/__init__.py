"""The trace folder's tables, version 1: the one contract between the stages.

Signed integers only and no timestamp types, so that DuckDB, pandas, Spark and Polars all read the
same values. `_ns` columns are nanoseconds since the trace start; sectors are 512 bytes.
"""

from __future__ import annotations

import pyarrow as pa

from tracekit.schema.field import TEXT, field

SCHEMA_VERSION = 1
SECTOR_BYTES = 512
BLOCK_BYTES = 4096
ROW_GROUP_ROWS = 1 << 20

ROLES = ("fs", "journal", "swap", "other", "unknown")
OPERATIONS = ("read", "write", "flush", "discard", "write_zeroes", "zone", "other")

REQUESTS = pa.schema(
    [
        field(
            "request_id", pa.int64(), meaning="position in queue order, from 0; joins completions"
        ),
        field("queue_ns", pa.int64(), meaning="queued (Q)", nullable=True),
        field("getrq_ns", pa.int64(), meaning="request structure allocated (G)", nullable=True),
        field("insert_ns", pa.int64(), meaning="inserted into the scheduler (I)", nullable=True),
        field(
            "merge_ns", pa.int64(), meaning="merged into another request (M or F)", nullable=True
        ),
        field("issue_ns", pa.int64(), meaning="issued to the driver (first D)", nullable=True),
        field(
            "transfer_ns",
            pa.int64(),
            meaning="last byte transferred (last C with bytes); earlier by a closing flush",
            nullable=True,
        ),
        field("complete_ns", pa.int64(), meaning="completed (last C of any kind)", nullable=True),
        field("device", TEXT, meaning="whole device or volume"),
        field("sector", pa.int64(), meaning="first 512-byte sector, from the start of `device`"),
        field(
            "length_bytes",
            pa.int64(),
            meaning="bytes transferred or discarded; 0 for an empty flush",
        ),
        field(
            "operation", TEXT, meaning="read, write, flush, discard, write_zeroes, zone or other"
        ),
        field("is_sync", pa.bool_(), meaning="synchronous"),
        field("is_meta", pa.bool_(), meaning="file system metadata"),
        field("is_fua", pa.bool_(), meaning="forced unit access"),
        field("is_preflush", pa.bool_(), meaning="cache flush before the data"),
        field("is_readahead", pa.bool_(), meaning="readahead"),
        field("process", TEXT, meaning="name of the process that queued it", nullable=True),
        field("pid", pa.int32(), meaning="of the queue event"),
        field("cpu", pa.int32(), meaning="of the queue event"),
        field("error", pa.int32(), meaning="negative errno of the completion, 0 if none"),
        field(
            "merged_into",
            pa.int64(),
            meaning="request_id of the request that carried it",
            nullable=True,
        ),
        field("requeue_count", pa.int32(), meaning="times the driver gave it back (R)"),
        field("split_count", pa.int32(), meaning="times it was split (X)"),
        field(
            "depth",
            pa.int32(),
            meaning="requests of the device not yet complete at queue, this included",
        ),
        field("partition", TEXT, meaning="major,minor it was remapped from (A)", nullable=True),
        field("role", TEXT, meaning="fs, journal, swap, other or unknown; set by classify"),
    ]
)

BLOCKS = pa.schema(
    [
        field("device", TEXT, meaning="whole device or volume"),
        field("block", pa.int64(), meaning="4 KiB block number, from the start of `device`"),
        field("role", TEXT, meaning="role of the requests that touched it"),
        field("reads", pa.int64(), meaning="read requests that touched it"),
        field("writes", pa.int64(), meaning="write requests that touched it"),
        field(
            "sectors",
            pa.int32(),
            meaning="distinct 512-byte sectors of it that were touched, 1 to 8",
        ),
        field("first_ns", pa.int64(), meaning="first access"),
        field("last_ns", pa.int64(), meaning="last access"),
        field(
            "traffic_ratio",
            pa.float64(),
            meaning="its share of all block touches of the trace, 0 to 1",
        ),
        field("temperature", TEXT, meaning="hot, warm or cold by the rule in trace.json"),
    ]
)

WORKING_SET = pa.schema(
    [
        field("window_ns", pa.int64(), meaning="start of the window"),
        field("role", TEXT, meaning="role"),
        field(
            "distinct_blocks",
            pa.int64(),
            meaning="different 4 KiB blocks touched within the window",
        ),
        field("new_blocks", pa.int64(), meaning="of these, blocks never touched before"),
    ]
)

PLACEMENT = pa.schema(
    [
        field(
            "base_profile", pa.string(), meaning="device that holds everything not placed on NVM"
        ),
        field("nvm_profile", pa.string(), meaning="device model of the NVM"),
        field(
            "placement",
            pa.string(),
            meaning="base, a role, several as in fs+journal, combined (all roles) or optimal",
        ),
        field(
            "coverage",
            pa.string(),
            meaning="hottest, start or none: which blocks of a role go first",
        ),
        field("capacity_bytes", pa.int64(), meaning="NVM capacity"),
        field("elapsed_ns", pa.int64(), meaning="sum of the service times of all requests"),
        field(
            "response_avg_ns",
            pa.int64(),
            meaning="with queueing: mean time from arrival to completion",
            nullable=True,
        ),
        field(
            "makespan_ns",
            pa.int64(),
            meaning="with queueing: from the first arrival to the last completion",
            nullable=True,
        ),
        field("fs_bytes", pa.int64(), meaning="NVM given to the file system at this point"),
        field("journal_bytes", pa.int64(), meaning="NVM given to the journal at this point"),
        field("swap_bytes", pa.int64(), meaning="NVM given to swap at this point"),
    ]
)

COMPLETIONS = pa.schema(
    [
        field("request_id", pa.int64(), meaning="request of the trace"),
        field(
            "intended_ns",
            pa.int64(),
            meaning="when the plan wanted it issued, from the run's start; null: at once",
            nullable=True,
        ),
        field("submit_ns", pa.int64(), meaning="when it was submitted, from the run's start"),
        field(
            "complete_ns", pa.int64(), meaning="when its completion was seen, from the run's start"
        ),
        field("error", pa.int32(), meaning="negative errno, 0 if none"),
        field("target", pa.int32(), meaning="index of the target in summary.json"),
        field(
            "status",
            TEXT,
            meaning="done, failed, or skipped_ read_only, out_of_range, unsupported or late",
        ),
    ]
)
