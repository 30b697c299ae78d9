"""MSR Cambridge traces: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime."""

from __future__ import annotations

from tracekit.formats.foreign import Units
from tracekit.formats.text import READ_OR_WRITE, TextFormat

FORMAT = TextFormat(
    "msr",
    {
        "time": "int",
        "device": "word",
        "volume": "word",
        "op": "op",
        "offset": "int",
        "length": "int",
        "response": "decimal?",
    },
    Units("filetime", "bytes", "bytes", is_wall=True, response="filetime"),
    READ_OR_WRITE,
)
