"""The table of `tracekit simulate sensitivity`."""

from __future__ import annotations

import pyarrow as pa

from tracekit.schema.field import TEXT, field

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
