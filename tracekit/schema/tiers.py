"""The tables of `tracekit simulate tiers`.

In their lists the tiers stand in the order of `tiers` in simulations/tiers.json.
"""

from __future__ import annotations

import pyarrow as pa

from tracekit.schema.field import field

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
