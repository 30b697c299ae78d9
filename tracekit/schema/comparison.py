"""The table of `tracekit compare`."""

from __future__ import annotations

import pyarrow as pa

from tracekit.schema.field import field

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
