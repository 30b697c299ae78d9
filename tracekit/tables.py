"""The tables of the trace folder, version 1: every column with its type and its meaning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit.arrow import name_codes

TEXT = pa.dictionary(pa.int32(), pa.string())


def field(name: str, kind: pa.DataType, *, meaning: str, nullable: bool = False) -> pa.Field:
    """Return a column; its unit is the end of its name."""
    return pa.field(name, kind, nullable=nullable, metadata={"meaning": meaning})


SCHEMA_VERSION = 1
ROW_GROUP_ROWS = 1 << 20

ROLE_NAMES = {
    "fs": "file system",
    "journal": "journal",
    "swap": "swap",
    "other": "other",
    "unknown": "not known",
}
ROLES = tuple(ROLE_NAMES)
PLACEMENT_NAMES = {
    "fs": "the file system",
    "journal": "the journal",
    "swap": "swap",
    "combined": "a split between roles",
    "optimal": "the hottest blocks of all roles",
    "base": "the base device alone",
}
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


CACHE_CURVE = pa.schema(
    [
        field(
            "cache",
            pa.string(),
            meaning="shared: one cache for all; own: one for this role or this device",
        ),
        field(
            "scope",
            pa.string(),
            meaning="whose references are counted: of all devices, of one, or of others than these",
        ),
        field("device", pa.string(), meaning="of scope one; else null", nullable=True),
        field("role", pa.string(), meaning="role whose references are counted, or all"),
        field("operation", pa.string(), meaning="read, write or all"),
        field("capacity_bytes", pa.int64(), meaning="size of the LRU cache, in whole pages"),
        field("references", pa.int64(), meaning="pages that the requests touched, each as often"),
        field(
            "miss_ratio", pa.float64(), meaning="share of the references not in the cache, 0 to 1"
        ),
        field("miss_ratio_low", pa.float64(), meaning="end of its error band; the same if exact"),
        field("miss_ratio_high", pa.float64(), meaning="end of its error band; the same if exact"),
    ]
)

CACHE_POLICIES = pa.schema(
    [
        field("policy", pa.string(), meaning="lru, fifo, clock, s3-fifo, arc or optimum (Belady)"),
        field("writes", pa.string(), meaning="through, back or around the cache"),
        field("capacity_bytes", pa.int64(), meaning="size of the cache, in whole pages"),
        field("reads", pa.int64(), meaning="pages read by the requests"),
        field("read_hits", pa.int64(), meaning="of these, in the cache"),
        field("write_references", pa.int64(), meaning="pages written by the requests"),
        field("write_hits", pa.int64(), meaning="of these, in the cache when they were written"),
        field("miss_ratio", pa.float64(), meaning="of reads and writes, 0 to 1"),
        field(
            "read_miss_ratio", pa.float64(), meaning="of reads, 0 to 1; null without", nullable=True
        ),
        field("fills", pa.int64(), meaning="pages that came into the cache"),
        field("backend_reads", pa.int64(), meaning="pages read behind the cache"),
        field("backend_writes", pa.int64(), meaning="pages written behind the cache"),
        field(
            "dirty_pages", pa.int64(), meaning="pages at the end newer in the cache than behind it"
        ),
    ]
)

CACHE_PLANE = pa.schema(
    [
        field(
            "levels",
            pa.string(),
            meaning="exclusive or inclusive: does flash repeat what PCM holds",
        ),
        field("pcm_policy", pa.string(), meaning="lru, fifo, clock, s3-fifo or arc"),
        field("flash_policy", pa.string(), meaning="the same of the flash level"),
        field("writes", pa.string(), meaning="how both levels write: through, back or around"),
        field("pcm_bytes", pa.int64(), meaning="size of the PCM level"),
        field("flash_bytes", pa.int64(), meaning="size of the flash level below it"),
        field(
            "even_flash_bytes",
            pa.int64(),
            meaning="on a line of equal cost, the flash that costs as much; null in the plane",
            nullable=True,
        ),
        field(
            "price_in_flash_bytes", pa.int64(), meaning="flash that costs as much as both levels"
        ),
        field("reads", pa.int64(), meaning="pages read by the requests"),
        field("pcm_read_hits", pa.int64(), meaning="of these, in PCM"),
        field("flash_read_hits", pa.int64(), meaning="of these, in flash and not in PCM"),
        field(
            "pcm_writes", pa.int64(), meaning="pages written to PCM: brought in or changed there"
        ),
        field(
            "flash_writes",
            pa.int64(),
            meaning="pages written to flash: brought in, demoted, changed",
        ),
        field("base_writes", pa.int64(), meaning="pages written behind the cache"),
        field(
            "dirty_pages", pa.int64(), meaning="pages at the end newer on a level than behind both"
        ),
        field(
            "read_latency_avg_ns", pa.float64(), meaning="of the level that had it", nullable=True
        ),
        field(
            "io_time_ns",
            pa.float64(),
            meaning="all reads and writes of PCM, flash and behind, summed",
        ),
    ]
)

CACHE_SENSITIVITY = pa.schema(
    [
        field("measure", pa.string(), meaning="what is to be least: read_latency_avg or io_time"),
        field(
            "parameter",
            pa.string(),
            meaning="what changed; null: the devices as said",
            nullable=True,
        ),
        field(
            "factor",
            pa.float64(),
            meaning="by how much; a read or write of any length changes alike",
        ),
        field("even_flash_bytes", pa.int64(), meaning="the budget: flash that costs as much"),
        field(
            "pcm_price_in_flash",
            pa.float64(),
            meaning="price of PCM in flash of the same size, so changed",
        ),
        field(
            "pcm_bytes", pa.int64(), meaning="PCM of the best pair for the budget, of nine splits"
        ),
        field("flash_bytes", pa.int64(), meaning="flash of the best pair"),
        field("best_ns", pa.float64(), meaning="the measure with the best pair"),
        field("flash_alone_ns", pa.float64(), meaning="the measure with the budget spent on flash"),
        field("gain_ratio", pa.float64(), meaning="share of it that the best pair saves"),
    ]
)


TIERS = pa.schema(
    [
        field(
            "share_ratio",
            pa.list_(pa.float64()),
            meaning="share of the capacity on each tier, 0 to 1",
        ),
        field(
            "extents",
            pa.list_(pa.int64()),
            meaning="touched extents on each tier, static placement",
        ),
        field("price_per_gb", pa.float64(), meaning="price of a gigabyte of the mix"),
        field("latency_avg_ns", pa.float64(), meaning="mean latency, static placement"),
        field("iops", pa.float64(), meaning="requests a second, one after another: 1 / latency"),
        field("iops_per_price", pa.float64(), meaning="iops / price_per_gb"),
        field(
            "dynamic_latency_avg_ns", pa.float64(), meaning="mean latency, dynamic", nullable=True
        ),
        field("dynamic_iops_per_price", pa.float64(), meaning="of dynamic tiering", nullable=True),
        field("promoted_bytes", pa.int64(), meaning="moved to a faster tier", nullable=True),
        field("demoted_bytes", pa.int64(), meaning="moved to a slower tier", nullable=True),
    ]
)

TIERS_KEY = pa.schema(
    [
        field(
            "configuration", pa.string(), meaning="all of one tier, or the best of a group of mixes"
        ),
        field("method", pa.string(), meaning="static or dynamic"),
        field("mix", pa.string(), meaning="shares of the capacity in words"),
        field(
            "share_ratio",
            pa.list_(pa.float64()),
            meaning="share of the capacity on each tier, 0 to 1",
        ),
        field("price_per_gb", pa.float64(), meaning="price of a gigabyte of the mix"),
        field("latency_avg_ns", pa.float64(), meaning="mean latency"),
        field("iops", pa.float64(), meaning="requests a second, one after another: 1 / latency"),
        field("iops_per_price", pa.float64(), meaning="iops / price_per_gb"),
        field(
            "promoted_bytes", pa.int64(), meaning="moved to a faster tier, dynamic", nullable=True
        ),
        field(
            "demoted_bytes", pa.int64(), meaning="moved to a slower tier, dynamic", nullable=True
        ),
    ]
)

TIERS_EXTENTS = pa.schema(
    [
        field("device", pa.string(), meaning="whole device or volume"),
        field("extent", pa.int64(), meaning="number of the extent, from the start of `device`"),
        field("first_sector", pa.int64(), meaning="its first 512-byte sector"),
        field("reads", pa.int64(), meaning="read traffic: bytes or requests, as tiers.json says"),
        field("writes", pa.int64(), meaning="write traffic, in the same unit"),
        field("tier", pa.string(), meaning="where the best static mix places it"),
    ]
)

TIERS_SKEW = pa.schema(
    [
        field("role", pa.string(), meaning="role, or all"),
        field("operation", pa.string(), meaning="read or write"),
        field("extent_count", pa.int64(), meaning="the busiest extents of this role and operation"),
        field("capacity_ratio", pa.float64(), meaning="their share of the role's extents, 0 to 1"),
        field("traffic_ratio", pa.float64(), meaning="their share of its traffic, 0 to 1"),
    ]
)

TIERS_WINDOWS = pa.schema(
    [
        field("configuration", pa.string(), meaning="name of the mix, as in tiers_key"),
        field(
            "window_ns",
            pa.int64(),
            meaning="start of the window; windows without traffic have no row",
        ),
        field("reads", pa.list_(pa.int64()), meaning="read traffic of each tier"),
        field("writes", pa.list_(pa.int64()), meaning="write traffic of each tier"),
        field("latency_avg_ns", pa.float64(), meaning="mean latency in the window"),
        field("promoted_bytes", pa.int64(), meaning="moved to a faster tier after the window"),
        field("demoted_bytes", pa.int64(), meaning="moved to a slower tier after the window"),
    ]
)

TIERS_SENSITIVITY = pa.schema(
    [
        field(
            "tier",
            pa.string(),
            meaning="tier whose parameter is changed, null for one of the system",
            nullable=True,
        ),
        field("parameter", pa.string(), meaning="what is changed, named as in --vary"),
        field("factor", pa.float64(), meaning="what it is multiplied with"),
        field("value", pa.float64(), meaning="the changed value"),
        field("method", pa.string(), meaning="static or dynamic"),
        field("mix", pa.string(), meaning="best mix with the first tier, in words"),
        field(
            "share_ratio", pa.list_(pa.float64()), meaning="shares of that mix on each tier, 0 to 1"
        ),
        field("iops_per_price", pa.float64(), meaning="of that mix"),
        field(
            "without_iops_per_price", pa.float64(), meaning="of the best mix without the first tier"
        ),
        field(
            "gain_ratio", pa.float64(), meaning="what the first tier gains over having none, -1 up"
        ),
        field(
            "promoted_bytes", pa.int64(), meaning="moved to a faster tier, dynamic", nullable=True
        ),
        field(
            "demoted_bytes", pa.int64(), meaning="moved to a slower tier, dynamic", nullable=True
        ),
    ]
)


BUFFER = pa.schema(
    [
        field("nvram", pa.string(), meaning="as asked, or a memory of the what-if: whose times"),
        field(
            "mapping",
            pa.string(),
            meaning="lru: rows used last are open; banked: row modulo buffers",
        ),
        field("row_bytes", pa.int64(), meaning="size of a buffer: of the row that it holds"),
        field("buffers", pa.int64(), meaning="row buffers of the memory"),
        field("role", pa.string(), meaning="all, or the role of the requests"),
        field("operation", pa.string(), meaning="all, read or write"),
        field("access_bytes", pa.int64(), meaning="size of an access: a line, or a row if smaller"),
        field("accesses", pa.int64(), meaning="accesses that the requests make"),
        field("hits", pa.int64(), meaning="of these, to an open row"),
        field("hit_rate", pa.float64(), meaning="hits by accesses, 0 to 1"),
        field("access_avg_ns", pa.float64(), meaning="mean time of an access of the NVRAM"),
        field("unbuffered_avg_ns", pa.float64(), meaning="the same of NVRAM without buffers"),
        field("dram_avg_ns", pa.float64(), meaning="the same of DRAM with these hits"),
        field(
            "throughput_bytes_per_second",
            pa.float64(),
            meaning="of accesses to the NVRAM one by one",
        ),
    ]
)


ENDURANCE = pa.schema(
    [
        field("kind", TEXT, meaning="role (what the trace writes) or placement (what NVM takes)"),
        field("name", TEXT, meaning="the role, or the placement as in `placement`"),
        field("pages", pa.int64(), meaning="4 KiB pages touched, of a placement those on NVM"),
        field("written_pages", pa.int64(), meaning="of these, pages written at least once"),
        field("page_writes", pa.int64(), meaning="writes of these pages, each page of a request"),
        field(
            "written_bytes",
            pa.int64(),
            meaning="bytes asked for by writes; of a placement null, pages are counted",
            nullable=True,
        ),
        field(
            "bytes_a_day",
            pa.float64(),
            meaning="written_bytes, or of a placement page_writes of 4 KiB, of 24 hours at the"
            " trace's rate; null without a duration",
            nullable=True,
        ),
        field(
            "write_invalidation_factor",
            pa.float64(),
            meaning="page_writes / written_pages: mean writes of a written page",
            nullable=True,
        ),
        field(
            "writes_p99",
            pa.int64(),
            meaning="writes that 99 % of the written pages do not exceed",
            nullable=True,
        ),
        field("writes_max", pa.int64(), meaning="writes of the page written most"),
        field(
            "ideal_days",
            pa.float64(),
            meaning="lifetime with ideal wear levelling over the capacity; null: not known or"
            " nothing written",
            nullable=True,
        ),
        field(
            "unlevelled_days",
            pa.float64(),
            meaning="lifetime of the page written most, without wear levelling; null as above",
            nullable=True,
        ),
        field("capacity_bytes", pa.int64(), meaning="NVM capacity", nullable=True),
        field(
            "price",
            pa.float64(),
            meaning="of the capacity, in the currency of endurance.json, or relative without one",
            nullable=True,
        ),
        field("elapsed_ns", pa.int64(), meaning="elapsed time as in `placement`", nullable=True),
    ]
)


SENSITIVITY = pa.schema(
    [
        field("kind", TEXT, meaning="recommended, parameter, window or capacity"),
        field("device", TEXT, meaning="base or nvm, whose parameter is changed", nullable=True),
        field("parameter", TEXT, meaning="what of it takes longer or less", nullable=True),
        field("factor", pa.float64(), meaning="times as long", nullable=True),
        field("window", pa.int64(), meaning="number of the window, from 1", nullable=True),
        field("start_ns", pa.int64(), meaning="start of the window", nullable=True),
        field("end_ns", pa.int64(), meaning="end of the window", nullable=True),
        field("capacity_bytes", pa.int64(), meaning="NVM capacity"),
        field("requests", pa.int64(), meaning="reads and writes that were charged"),
        field("base_ns", pa.int64(), meaning="time of the base device alone"),
        field(
            "kept_ns",
            pa.int64(),
            meaning="time with the shares of the recommendation; null for another capacity, and"
            " where nothing takes time",
            nullable=True,
        ),
        field("kept_gain_ratio", pa.float64(), meaning="share that it saves", nullable=True),
        field("placement", TEXT, meaning="best here: base, a role or combined"),
        field("gain_ratio", pa.float64(), meaning="share of the base's time that the best saves"),
        field("holds", pa.bool_(), meaning="the best here is the placement that was recommended"),
    ]
)


FIDELITY = pa.schema(
    [
        field("role", pa.string(), meaning="all, or the role of the requests"),
        field(
            "measure",
            pa.string(),
            meaning="mix (of operations and flags), size, gap, run_length, reuse_distance,"
            " miss_ratio, dispersion or gap_correlation",
        ),
        field(
            "unit",
            pa.string(),
            meaning="of the means: bytes, ns, requests, pages of 4 KiB, or ratio",
        ),
        field("original_count", pa.int64(), meaning="values of the trace that were compared"),
        field("synthetic_count", pa.int64(), meaning="of the requests that the profile gives"),
        field(
            "original_mean",
            pa.float64(),
            meaning="mean value, or the one value that there is, of the trace",
            nullable=True,
        ),
        field("synthetic_mean", pa.float64(), meaning="the same of the profile", nullable=True),
        field(
            "largest_gap_ratio",
            pa.float64(),
            meaning="Kolmogorov-Smirnov distance; of the mix total variation; of miss ratios the"
            " largest difference at one size; 0 to 1",
            nullable=True,
        ),
        field(
            "mean_gap",
            pa.float64(),
            meaning="Wasserstein distance in the unit; of miss ratios the mean difference over"
            " sizes that double",
            nullable=True,
        ),
    ]
)

FIDELITY_CURVE = pa.schema(
    [
        field("source", pa.string(), meaning="original or synthetic"),
        field("size_bytes", pa.int64(), meaning="an LRU cache of 4 KiB pages of this size"),
        field("miss_ratio", pa.float64(), meaning="reads and writes of pages that miss it, 0 to 1"),
    ]
)


COMPARISON = pa.schema(
    [
        field("name", pa.string(), meaning="replay, or trace for what was traced"),
        field("measure", pa.string(), meaning="elapsed, or service_avg, service_p50, service_p99"),
        field("role", pa.string(), meaning="role of the requests; all for elapsed"),
        field("operation", pa.string(), meaning="operation of the requests; all for elapsed"),
        field("repeats", pa.int64(), meaning="replays of this name"),
        field("request_count", pa.int64(), meaning="requests done, in the first repeat"),
        field("time_ns", pa.float64(), meaning="mean over the repeats"),
        field(
            "time_low_ns",
            pa.float64(),
            meaning="end of its 95 % confidence interval (Student's t); null without repeats",
            nullable=True,
        ),
        field("time_high_ns", pa.float64(), meaning="the other end of it", nullable=True),
        field("ratio", pa.float64(), meaning="to the first name; geometric mean", nullable=True),
        field(
            "ratio_low",
            pa.float64(),
            meaning="end of its 95 % confidence interval (Welch, of logarithms); null without",
            nullable=True,
        ),
        field("ratio_high", pa.float64(), meaning="the other end of it", nullable=True),
    ]
)


VERIFICATION = pa.schema(
    [
        field("repeat", pa.int64(), meaning="number of the repeat, from 1"),
        field("devices", pa.string(), meaning="base: everything there; placement: as recommended"),
        field(
            "predicted_ns",
            pa.int64(),
            meaning="elapsed (queueing: mean response) time by the model",
        ),
        field("measured_ns", pa.int64(), meaning="the same of the replay"),
    ]
)


COUNTERS = pa.schema(
    [
        field("workload", TEXT, meaning="name of the workload"),
        field("run", pa.int32(), meaning="number of the run, from 1"),
        field("source", TEXT, meaning="the command, or the recorded file"),
        field("event", TEXT, meaning="event as perf names it, without a modifier such as :u"),
        field("counted_group", TEXT, meaning="events that were counted together; empty: alone"),
        field(
            "count",
            pa.float64(),
            meaning="as perf gives it: extrapolated where it counted only a part of the time; null:"
            " not counted",
            nullable=True,
        ),
        field("unit", TEXT, meaning="unit of the count, such as msec; empty: events"),
        field(
            "running_ratio",
            pa.float64(),
            meaning="share of the time in which it was counted; below 1 the events took turns",
            nullable=True,
        ),
        field("reason", TEXT, meaning="why it was not counted; empty when it was"),
        field(
            "throughput",
            pa.float64(),
            meaning="of the workload in this run; null: the recorded file does not tell",
            nullable=True,
        ),
        field("throughput_unit", TEXT, meaning="where the throughput is from"),
        field("elapsed_ns", pa.int64(), meaning="of the run; null of a file", nullable=True),
    ]
)

COUNTER_STATISTICS = pa.schema(
    [
        field("workload", TEXT, meaning="name of the workload"),
        field("event", TEXT, meaning="event as in `counters`"),
        field("runs", pa.int32(), meaning="runs in which it was counted"),
        field("mean", pa.float64(), meaning="mean count of a run"),
        field(
            "deviation",
            pa.float64(),
            meaning="standard deviation of the sample; null: one run",
            nullable=True,
        ),
        field(
            "least_running_ratio",
            pa.float64(),
            meaning="least share of the time in which it was counted",
            nullable=True,
        ),
        field(
            "correlation",
            pa.float64(),
            meaning="Pearson's, of count and throughput over the runs; null: below three runs, or"
            " one of both never changed",
            nullable=True,
        ),
        field(
            "correlation_low",
            pa.float64(),
            meaning="lower end of its 95 % interval, by Fisher's z; null: below four runs",
            nullable=True,
        ),
        field("correlation_high", pa.float64(), meaning="upper end of it", nullable=True),
        field(
            "p_value",
            pa.float64(),
            meaning="chance of a correlation as far from 0 where there is none",
            nullable=True,
        ),
        field(
            "rank",
            pa.int32(),
            meaning="1: the most telling event of the workload, whose interval stays farthest"
            " from 0; null: no interval",
            nullable=True,
        ),
    ]
)


DEVICE_STEPS = pa.schema(
    [
        field("step", pa.int32(), meaning="number of the step, in order of measuring"),
        field(
            "kind",
            TEXT,
            meaning="fill, precondition, random_write, random_read, size, sequential, flush, fua or"
            " surface",
        ),
        field("write_ratio", pa.float64(), meaning="share of the requests that were to write"),
        field("depth", pa.int32(), meaning="requests in flight"),
        field("length_bytes", pa.int64(), meaning="length of each read and write"),
        field("operation", TEXT, meaning="read, write or flush; all for the step as a whole"),
        field("requests", pa.int64(), meaning="requests that were done"),
        field("failed", pa.int64(), meaning="requests that failed; in no latency"),
        field("elapsed_ns", pa.int64(), meaning="of the step, first submission to last completion"),
        field("iops", pa.float64(), meaning="requests done a second of elapsed_ns"),
        field(
            "usual_iops",
            pa.float64(),
            meaning="rate that a quarter of the step's parts of 50 requests or more exceed, which"
            " pauses do not change; null for one operation of several",
            nullable=True,
        ),
        field("mean_ns", pa.float64(), meaning="latency, submission to completion: mean"),
        field("deviation_ns", pa.float64(), meaning="its standard deviation, of the sample"),
        field("min_ns", pa.int64(), meaning="the shortest"),
        field("p50_ns", pa.int64(), meaning="nearest rank in buckets of 128 an octave"),
        field("p99_ns", pa.int64(), meaning="as p50_ns"),
        field("p99_9_ns", pa.int64(), meaning="as p50_ns"),
        field("max_ns", pa.int64(), meaning="the longest"),
    ]
)

DEVICE_LATENCY = pa.schema(
    [
        field("step", pa.int32(), meaning="step of `device_steps`"),
        field("kind", TEXT, meaning="random_write or random_read"),
        field("operation", TEXT, meaning="read or write"),
        field("low_ns", pa.int64(), meaning="shortest latency that the bucket can hold"),
        field("high_ns", pa.int64(), meaning="the first that is in it no more"),
        field("requests", pa.int64(), meaning="requests in the bucket"),
        field("requests_ratio", pa.float64(), meaning="share of the step's requests"),
    ]
)

DEVICE_FIT = pa.schema(
    [
        field("parameter", TEXT, meaning="key of the device profile, or a figure beside it"),
        field("value", pa.float64(), meaning="as measured, in the unit of the key's name"),
        field(
            "spread_ratio",
            pa.float64(),
            meaning="how far off it may be: standard error of a mean, or the mean"
            " distance of the measurements from the fit; relative; null: not known",
            nullable=True,
        ),
        field(
            "known_value",
            pa.float64(),
            meaning="what an emulated device has; null for a real one",
            nullable=True,
        ),
        field(
            "error_ratio",
            pa.float64(),
            meaning="(value - known_value) / known_value; null without one",
            nullable=True,
        ),
        field("is_in_profile", pa.bool_(), meaning="whether the profile that was written has it"),
    ]
)


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


@dataclass(frozen=True)
class Table:
    """A table: its name as a view, the command that makes it, what a row is, and its columns.

    `folder` is where its file lies in the trace folder, empty for the folder itself.
    """

    name: str
    made_by: str
    grain: str
    columns: pa.Schema
    folder: str = ""

    @property
    def place(self) -> str:
        """Its file within the trace folder, without `.parquet`."""
        return f"{self.folder}/{self.name}" if self.folder else self.name


def _simulated(made_by: str, *tables: tuple[str, str, pa.Schema]) -> Iterable[Table]:
    return _measured(made_by, "simulations", *tables)


def _measured(made_by: str, folder: str, *tables: tuple[str, str, pa.Schema]) -> Iterable[Table]:
    return (Table(name, made_by, grain, columns, folder) for name, grain, columns in tables)


TABLES = (
    Table("requests", "parse", "one row per request as queued", REQUESTS),
    Table("blocks", "classify", "one row per device, 4 KiB block and role", BLOCKS),
    Table("working_set", "classify", "one row per window and role", WORKING_SET),
    Table(
        "file_operations",
        "capture --files",
        "one row per file system call, in order of start",
        FILE_OPERATIONS,
    ),
    Table("files", "capture --files", "one row per path that an operation names", FILES),
    *_simulated(
        "recommend",
        ("placement", "one row per placement and capacity", PLACEMENT),
    ),
    Table(
        "verification",
        "verify-placement",
        "one row per repeat and kind of replay",
        VERIFICATION,
    ),
    Table("fidelity", "fit", "one row per role and measure", FIDELITY),
    Table("fidelity_curve", "fit", "one row per source and size", FIDELITY_CURVE),
    Table("comparison", "compare", "one row per name, measure, role and operation", COMPARISON),
    *_simulated(
        "simulate cache",
        ("cache_curve", "one row per cache, device, role, operation and size", CACHE_CURVE),
        ("cache_policies", "one row per policy and size", CACHE_POLICIES),
        ("cache_plane", "one row per pair of sizes", CACHE_PLANE),
        (
            "cache_sensitivity",
            "one row per measure, changed parameter and budget",
            CACHE_SENSITIVITY,
        ),
    ),
    *_simulated(
        "simulate buffer",
        (
            "buffer",
            "one row per memory, mapping, row size, number of buffers, role and operation",
            BUFFER,
        ),
    ),
    *_simulated(
        "simulate sensitivity",
        ("sensitivity", "one row per change, window or capacity", SENSITIVITY),
    ),
    *_simulated(
        "simulate endurance",
        ("endurance", "one row per role and per placement", ENDURANCE),
    ),
    *_simulated(
        "simulate tiers",
        ("tiers", "one row per mix of tiers", TIERS),
        ("tiers_key", "one row per method and key configuration", TIERS_KEY),
        ("tiers_extents", "one row per touched extent", TIERS_EXTENTS),
        ("tiers_skew", "one row per role, operation and number of extents", TIERS_SKEW),
        (
            "tiers_windows",
            "with `--dynamic`, one row per configuration and window with traffic",
            TIERS_WINDOWS,
        ),
        ("tiers_sensitivity", "one row per tier, parameter, factor and method", TIERS_SENSITIVITY),
    ),
    *_measured(
        "characterize-device",
        "device",
        ("device_steps", "one row per step and operation, and one per step", DEVICE_STEPS),
        ("device_latency", "one row per step and bucket of latencies", DEVICE_LATENCY),
        ("device_fit", "one row per parameter of the device", DEVICE_FIT),
    ),
    *_measured(
        "counters",
        "counters",
        ("counters", "one row per workload, run and event", COUNTERS),
        ("counter_statistics", "one row per workload and event", COUNTER_STATISTICS),
    ),
    *_measured(
        "sweep",
        "files",
        ("file_runs", "one row per run and step, and one per run", FILE_RUNS),
    ),
)
"""All but tables of which each replay or run has its own, and the findings, described in SQL."""

REPLAYED = Table("completions", "replay", "one row per replay and request", COMPLETIONS)
FILES_REPLAYED = Table(
    "file_completions", "replay --files", "one row per replay and file operation", FILE_COMPLETIONS
)
OPERATIONS_SWEPT = Table(
    "sweep_operations",
    "sweep --operations",
    "one row per run and operation",
    SWEEP_OPERATIONS,
)
MADE_BY = {table.name: table.made_by for table in TABLES}


def role_codes(column: Any) -> NDArray[np.int32]:
    """Return each role's index in ROLES; a name that is none of them is `unknown`."""
    return np.minimum(name_codes(column, list(ROLES)), ROLES.index("unknown"))
