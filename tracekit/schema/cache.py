"""The tables of `tracekit simulate cache`."""

from __future__ import annotations

import pyarrow as pa

from tracekit.schema.field import field

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
