"""Alibaba block traces of 2020: device_id,opcode,offset,length,timestamp."""

from __future__ import annotations

from tracekit.formats.foreign import Units
from tracekit.formats.text import READ_OR_WRITE, TextFormat

FORMAT = TextFormat(
    "alibaba",
    {"device": "word", "op": "op", "offset": "int", "length": "int", "time": "int"},
    Units("us", "bytes", "bytes", is_wall=True),
    READ_OR_WRITE,
)
