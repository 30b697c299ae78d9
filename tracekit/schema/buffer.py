"""The table of `tracekit simulate buffer`."""

from __future__ import annotations

import pyarrow as pa

from tracekit.schema.field import field

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
