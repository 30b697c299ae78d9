"""Tencent CBS traces: Timestamp,Offset,Size,IOType,VolumeID; whole seconds."""

from __future__ import annotations

from tracekit.formats.foreign import Units
from tracekit.formats.text import READ_OR_WRITE, TextFormat

FORMAT = TextFormat(
    "tencent",
    {"time": "int", "offset": "int", "length": "int", "op": "op", "device": "digits"},
    Units("s", "sectors", "sectors", is_wall=True),
    {"0": "read", "1": "write", **READ_OR_WRITE},
    telling=r'^\s*"?[0-9]{9,}\b|^[^A-Za-z]*$',  # with letters, SPC's places have fewer digits
)
