"""The table of `tracekit verify-placement`."""

from __future__ import annotations

import pyarrow as pa

from tracekit.schema.field import field

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
