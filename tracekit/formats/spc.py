"""SPC traces (UMass): ASU, LBA, size, opcode, timestamp and optional fields."""

from __future__ import annotations

from tracekit.formats.foreign import Units
from tracekit.formats.text import TextFormat

FORMAT = TextFormat(
    "spc",
    {"device": "digits", "offset": "int", "length": "int", "op": "op", "time": "decimal"},
    Units("s", "sectors", "bytes"),
    {"r": "read", "w": "write"},
    may_have_more=True,
)
