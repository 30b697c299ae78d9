"""The tables of `tracekit fit`: how a synthetic workload differs from the trace it was made of."""

from __future__ import annotations

import pyarrow as pa

from tracekit.schema.field import field

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
