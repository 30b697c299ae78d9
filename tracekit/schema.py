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

# In the lists of these tables the tiers stand in the order of `tiers` in simulations/tiers.json.
TIERS = pa.schema(
    [
        _field("share_ratio", pa.list_(pa.float64()), "share of the capacity on each tier, 0 to 1"),
        _field("extents", pa.list_(pa.int64()), "touched extents on each tier, static placement"),
        _field("price_per_gb", pa.float64(), "price of a gigabyte of the mix"),
        _field("latency_avg_ns", pa.float64(), "mean latency, static placement"),
        _field("iops", pa.float64(), "requests a second, one after another: 1 / latency"),
        _field("iops_per_price", pa.float64(), "iops / price_per_gb"),
        _field("dynamic_latency_avg_ns", pa.float64(), "mean latency, dynamic", nullable=True),
        _field("dynamic_iops_per_price", pa.float64(), "of dynamic tiering", nullable=True),
        _field("promoted_bytes", pa.int64(), "moved to a faster tier", nullable=True),
        _field("demoted_bytes", pa.int64(), "moved to a slower tier", nullable=True),
    ]
)

TIERS_KEY = pa.schema(
    [
        _field("configuration", pa.string(), "all of one tier, or the best of a group of mixes"),
        _field("method", pa.string(), "static or dynamic"),
        _field("mix", pa.string(), "shares of the capacity in words"),
        _field("share_ratio", pa.list_(pa.float64()), "share of the capacity on each tier, 0 to 1"),
        _field("price_per_gb", pa.float64(), "price of a gigabyte of the mix"),
        _field("latency_avg_ns", pa.float64(), "mean latency"),
        _field("iops", pa.float64(), "requests a second, one after another: 1 / latency"),
        _field("iops_per_price", pa.float64(), "iops / price_per_gb"),
    ]
)

TIERS_EXTENTS = pa.schema(
    [
        _field("device", pa.string(), "whole device or volume"),
        _field("extent", pa.int64(), "number of the extent, from the start of `device`"),
        _field("first_sector", pa.int64(), "its first 512-byte sector"),
        _field("reads", pa.int64(), "read traffic: bytes or requests, as tiers.json says"),
        _field("writes", pa.int64(), "write traffic, in the same unit"),
        _field("tier", pa.string(), "where the best static mix places it"),
    ]
)

TIERS_SKEW = pa.schema(
    [
        _field("role", pa.string(), "role, or all"),
        _field("operation", pa.string(), "read or write"),
        _field("extent_count", pa.int64(), "the busiest extents of this role and operation"),
        _field("capacity_ratio", pa.float64(), "their share of the role's extents, 0 to 1"),
        _field("traffic_ratio", pa.float64(), "their share of its traffic, 0 to 1"),
    ]
)

TIERS_WINDOWS = pa.schema(
    [
        _field("configuration", pa.string(), "name of the mix, as in tiers_key"),
        _field("window_ns", pa.int64(), "start of the window; windows without traffic have no row"),
        _field("reads", pa.list_(pa.int64()), "read traffic of each tier"),
        _field("writes", pa.list_(pa.int64()), "write traffic of each tier"),
        _field("latency_avg_ns", pa.float64(), "mean latency in the window"),
        _field("promoted_bytes", pa.int64(), "moved to a faster tier after the window"),
        _field("demoted_bytes", pa.int64(), "moved to a slower tier after the window"),
    ]
)

TIERS_SENSITIVITY = pa.schema(
    [
        _field("tier", pa.string(), "tier whose parameter is changed"),
        _field("parameter", pa.string(), "read_latency_us, write_latency_us or price_per_gb"),
        _field("factor", pa.float64(), "what it is multiplied with"),
        _field("value", pa.float64(), "the changed value"),
        _field("mix", pa.string(), "best mix with the first tier, in words"),
        _field("share_ratio", pa.list_(pa.float64()), "shares of that mix on each tier, 0 to 1"),
        _field("iops_per_price", pa.float64(), "of that mix, static placement"),
        _field("without_iops_per_price", pa.float64(), "of the best mix without the first tier"),
        _field("gain_ratio", pa.float64(), "what the first tier gains over having none, -1 up"),
    ]
)

CACHE_CURVE = pa.schema(
    [
        _field("cache", pa.string(), "shared: one cache for all roles; own: one for this role"),
        _field("role", pa.string(), "role whose references are counted, or all"),
        _field("operation", pa.string(), "read, write or all"),
        _field("capacity_bytes", pa.int64(), "size of the LRU cache, in whole pages"),
        _field("references", pa.int64(), "pages that the requests touched, each as often"),
        _field("miss_ratio", pa.float64(), "share of the references not in the cache, 0 to 1"),
        _field("miss_ratio_low", pa.float64(), "end of its error band; the same if exact"),
        _field("miss_ratio_high", pa.float64(), "end of its error band; the same if exact"),
    ]
)

CACHE_POLICIES = pa.schema(
    [
        _field("policy", pa.string(), "lru, fifo, clock, s3-fifo, arc or optimum (Belady)"),
        _field("writes", pa.string(), "through, back or around the cache"),
        _field("capacity_bytes", pa.int64(), "size of the cache, in whole pages"),
        _field("reads", pa.int64(), "pages read by the requests"),
        _field("read_hits", pa.int64(), "of these, in the cache"),
        _field("write_references", pa.int64(), "pages written by the requests"),
        _field("write_hits", pa.int64(), "of these, in the cache when they were written"),
        _field("miss_ratio", pa.float64(), "of reads and writes, 0 to 1"),
        _field("read_miss_ratio", pa.float64(), "of reads, 0 to 1; null without", nullable=True),
        _field("fills", pa.int64(), "pages that came into the cache"),
        _field("backend_reads", pa.int64(), "pages read behind the cache"),
        _field("backend_writes", pa.int64(), "pages written behind the cache"),
        _field("dirty_pages", pa.int64(), "pages at the end newer in the cache than behind it"),
    ]
)

BUFFER = pa.schema(
    [
        _field("mapping", pa.string(), "lru: rows used last are open; banked: row modulo buffers"),
        _field("row_bytes", pa.int64(), "size of a buffer: of the row that it holds"),
        _field("buffers", pa.int64(), "row buffers of the memory"),
        _field("role", pa.string(), "all, or the role of the requests"),
        _field("operation", pa.string(), "all, read or write"),
        _field("access_bytes", pa.int64(), "size of an access: a line, or a row if smaller"),
        _field("accesses", pa.int64(), "accesses that the requests make"),
        _field("hits", pa.int64(), "of these, to an open row"),
        _field("hit_rate", pa.float64(), "hits by accesses, 0 to 1"),
        _field("access_avg_ns", pa.float64(), "mean time of an access of the NVRAM"),
        _field("unbuffered_avg_ns", pa.float64(), "the same of NVRAM without buffers"),
        _field("dram_avg_ns", pa.float64(), "the same of DRAM with these hits"),
        _field("throughput_bytes_per_second", pa.float64(), "of accesses to the NVRAM one by one"),
    ]
)

CACHE_PLANE = pa.schema(
    [
        _field("levels", pa.string(), "exclusive or inclusive: does flash repeat what PCM holds"),
        _field("pcm_bytes", pa.int64(), "size of the PCM level"),
        _field("flash_bytes", pa.int64(), "size of the flash level below it"),
        _field(
            "even_flash_bytes",
            pa.int64(),
            "on a line of equal cost, the flash that costs as much; null in the plane",
            nullable=True,
        ),
        _field("price_in_flash_bytes", pa.int64(), "flash that costs as much as both levels"),
        _field("reads", pa.int64(), "pages read by the requests"),
        _field("pcm_read_hits", pa.int64(), "of these, in PCM"),
        _field("flash_read_hits", pa.int64(), "of these, in flash and not in PCM"),
        _field("pcm_writes", pa.int64(), "pages written to PCM: brought in or changed there"),
        _field("flash_writes", pa.int64(), "pages written to flash: brought in, demoted, changed"),
        _field("base_writes", pa.int64(), "pages written behind the cache"),
        _field("read_latency_avg_ns", pa.float64(), "of the level that had it", nullable=True),
        _field("io_time_ns", pa.float64(), "all reads and writes of PCM, flash and behind, summed"),
    ]
)
CACHE_SENSITIVITY = pa.schema(
    [
        _field("measure", pa.string(), "what is to be least: read_latency_avg or io_time"),
        _field("parameter", pa.string(), "what changed; null: the devices as said", nullable=True),
        _field("factor", pa.float64(), "by how much; a read or write of any length changes alike"),
        _field("even_flash_bytes", pa.int64(), "the budget: flash that costs as much"),
        _field(
            "pcm_price_in_flash", pa.float64(), "price of PCM in flash of the same size, so changed"
        ),
        _field("pcm_bytes", pa.int64(), "PCM of the best pair for the budget, of nine splits"),
        _field("flash_bytes", pa.int64(), "flash of the best pair"),
        _field("best_ns", pa.float64(), "the measure with the best pair"),
        _field("flash_alone_ns", pa.float64(), "the measure with the budget spent on flash"),
        _field("gain_ratio", pa.float64(), "share of it that the best pair saves"),
    ]
)
