"""The table of `tracekit simulate endurance`."""

from __future__ import annotations

import pyarrow as pa

from tracekit.schema.field import TEXT, field

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
