"""SPC traces (UMass): ASU, LBA, size, opcode, timestamp and optional fields."""

from __future__ import annotations

from tracekit.formats.foreign import Units
from tracekit.formats.text import READ_OR_WRITE, TextFormat

FORMAT = TextFormat(
    "spc",
    {"device": "digits", "offset": "int", "length": "int", "op": "op", "time": "decimal"},
    Units("s", "sectors", "bytes"),
    READ_OR_WRITE,
    may_have_more=True,
    telling=r'^\s*"?[0-9]{1,8}\b',  # a longer number is a time, as in Tencent's traces
)
