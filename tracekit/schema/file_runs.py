"""The tables of `tracekit sweep`."""

from __future__ import annotations

import pyarrow as pa

from tracekit.schema.field import TEXT, field

FILE_RUNS = pa.schema(
    [
        field("run_id", pa.string(), meaning="names the run: its settings, and its number"),
        field("personality", TEXT, meaning="name of the personality"),
        field("target", TEXT, meaning="name of the target, as given or its directory"),
        field(
            "is_dax",
            pa.bool_(),
            meaning="the file system there gives programs persistent memory itself, not copies in"
            " the page cache, or stands for one that does (memory:)",
        ),
        field("run", pa.int32(), meaning="number of the repeat, from 1"),
        field("threads", pa.int32(), meaning="threads"),
        field("files", pa.int64(), meaning="parameter `files` of the personality", nullable=True),
        field(
            "io_bytes", pa.int64(), meaning="parameter `io_size`: bytes of a call", nullable=True
        ),
        field(
            "settings",
            pa.string(),
            meaning="all parameters of the personality, as JSON, and what its runs in this folder"
            " differ in beside them, such as --cache",
        ),
        field("outcome", TEXT, meaning="finished, interrupted or full"),
        field(
            "step",
            TEXT,
            meaning="what the personality calls an operation, such as read_file; all: the run",
        ),
        field(
            "elapsed_ns",
            pa.int64(),
            meaning="measured time, less the mean of what the threads took to restore files",
        ),
        field("steps", pa.int64(), meaning="steps that ended as they should"),
        field("failed", pa.int64(), meaning="steps that failed; in no latency"),
        field("bytes", pa.int64(), meaning="bytes that they moved"),
        field("steps_per_second", pa.float64(), meaning="steps by elapsed_ns, of all threads"),
        field("bytes_per_second", pa.float64(), meaning="bytes by elapsed_ns, of all threads"),
        field("time_ratio", pa.float64(), meaning="share of the time of all steps of the run"),
        field("mean_ns", pa.float64(), meaning="latency: mean"),
        field(
            "p50_ns",
            pa.int64(),
            meaning="nearest rank; at most 0.8 % above it; null for all",
            nullable=True,
        ),
        field("p90_ns", pa.int64(), meaning="as p50_ns", nullable=True),
        field("p99_ns", pa.int64(), meaning="as p50_ns", nullable=True),
        field("p99_9_ns", pa.int64(), meaning="as p50_ns", nullable=True),
        field("max_ns", pa.int64(), meaning="the longest; null for all", nullable=True),
    ]
)

SWEEP_OPERATIONS = pa.schema(
    [
        field("start_ns", pa.int64(), meaning="the call began, from the start of the run"),
        field("end_ns", pa.int64(), meaning="it returned"),
        field("thread", pa.int32(), meaning="thread, from 0"),
        field("cycle", pa.int32(), meaning="repetition of the plan, from 0"),
        field("operation", TEXT, meaning="system call, as in file_operations"),
        field(
            "step",
            TEXT,
            meaning="what the personality calls it, as in file_runs; null: what restores files",
            nullable=True,
        ),
        field(
            "done_bytes",
            pa.int64(),
            meaning="bytes that were moved; null unless it read or wrote",
            nullable=True,
        ),
        field("error", pa.int32(), meaning="errno of the call, 0 if none"),
        field("is_expected", pa.bool_(), meaning="it ended as it should"),
        field(
            "is_timed", pa.bool_(), meaning="in the statistics: not of the warm-up nor restoring"
        ),
    ]
)
