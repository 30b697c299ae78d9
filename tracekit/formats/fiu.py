"""FIU traces (IODedup, SRCMap): time, pid, process, place, size, W or R, major, minor, MD5.

There is one MD5 of each 4 KiB, or of each sector, or none.
"""

from __future__ import annotations

from tracekit.formats.foreign import Units
from tracekit.formats.text import READ_OR_WRITE, TextFormat

FORMAT = TextFormat(
    "fiu",
    {
        "time": "int",
        "pid": "int",
        "process": "name",
        "offset": "int",
        "length": "int",
        "op": "op",
        "device": "digits",
        "volume": "digits",
    },
    Units("ns", "sectors", "sectors"),
    READ_OR_WRITE,
    delimiter=" ",
    may_have_more=True,
)
