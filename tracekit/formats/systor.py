"""SYSTOR'17 traces of virtual desktops: Timestamp,Response,IOType,LUN,Offset,Size."""

from __future__ import annotations

from tracekit.formats.foreign import Units
from tracekit.formats.text import READ_OR_WRITE, TextFormat

FORMAT = TextFormat(
    "systor",
    {
        "time": "decimal",
        "response": "decimal?",
        "op": "op",
        "device": "word",
        "offset": "int",
        "length": "int",
    },
    Units("s", "bytes", "bytes", is_wall=True, response="s"),
    READ_OR_WRITE,
)
