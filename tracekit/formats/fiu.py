"""FIU traces (IODedup, SRCMap): time, pid, process, place, size, W or R, major, minor, MD5."""

from __future__ import annotations

from tracekit.formats.foreign import Units
from tracekit.formats.text import TextFormat

FORMAT = TextFormat(
    "fiu",
    {
        "time": "int",
        "pid": "int",
        "process": "word",
        "offset": "int",
        "length": "int",
        "op": "op",
        "device": "digits",
        "volume": "digits",
        "_md5": r"[0-9A-Fa-f]+\s*",
    },
    Units("ns", "sectors", "sectors"),
    {"r": "read", "w": "write"},
    delimiter=" ",
)
