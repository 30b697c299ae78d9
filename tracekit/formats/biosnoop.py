"""biosnoop's output: completion time, process, pid, disk, type, sector, bytes, [queue,] latency.

The printed time is that of the completion: the request began its latency, and with -Q its time in
the queue, before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from tracekit.formats.foreign import Columns, Units
from tracekit.formats.pattern import PatternFormat
from tracekit.formats.text import BadLines

KINDS = {"r": "read", "w": "write", "d": "discard", "f": "flush", "n": "other"}
FLAGS = ["".join(flags) for flags in product(("", "f"), ("", "a"), ("", "s"), ("", "m"))]
OPERATIONS = {
    before + kind + flags: "readahead" if kind == "r" and "a" in flags else name
    for before in ("", "f")
    for kind, name in KINDS.items()
    for flags in FLAGS
} | {f"fn{flags}": "flush" for flags in FLAGS}
"""R and W of older versions, and the kernel's rwbs letters of newer ones."""


@dataclass(frozen=True)
class Biosnoop(PatternFormat):
    """Lines of biosnoop, of which the header names the columns."""

    def decode(self, block: bytes | memoryview, lines: BadLines) -> Columns | None:
        """Decode whole lines; times become those at which the requests began."""
        import numpy as np

        columns = super().decode(block, lines)
        if columns is None:
            return None
        numbers = dict(columns.numbers)
        waited = numbers.pop("queue")
        spans = numbers["response"] + np.maximum(waited, 0)
        numbers["response"] = spans
        numbers["time"] = numbers["time"] - spans
        return replace(columns, numbers=numbers)


FORMAT = Biosnoop(
    "biosnoop",
    {
        "time": "point",
        "process": "word",
        "pid": "int",
        "device": "word",
        "op": "op",
        "offset": "int",
        "length": "int",
        "queue": "decimal?",
        "response": "decimal",
    },
    Units("s", "sectors", "bytes", response="ms"),
    OPERATIONS,
    pattern=r"^(?P<time>[0-9]{1,18}\.[0-9]{1,9})\s+(?P<process>[^\s].*?)\s+(?P<pid>[0-9]{1,18})\s+"
    r"(?P<device>[^\s]+)\s+(?P<op>(?i:f?[rwdfn]f?a?s?m?))\s+(?P<offset>[0-9]{1,18})\s+"
    r"(?P<length>[0-9]{1,18})"
    r"(?:\s+(?P<queue>[0-9]{1,9}\.[0-9]{1,9}))?\s+(?P<response>[0-9]{1,9}\.[0-9]{1,9})\s*$",
)
