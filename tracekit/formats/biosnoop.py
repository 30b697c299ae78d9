"""biosnoop's output: completion time, process, pid, disk, type, sector, bytes, [queue,] latency.

The printed time is that of the completion: the request began its latency, and with -Q its time in
the queue, before. A flush has no place, which is printed as -1, signed or not; a queue that was not
seen is -1 ms, and a disk that was not is missing in older versions. -P adds S or R.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import product

from tracekit.formats.foreign import Columns, Units
from tracekit.formats.pattern import SEPARATOR, PatternFormat
from tracekit.formats.text import BadLines

KINDS = {
    **dict.fromkeys(("d", "de"), "discard"),
    "r": "read",
    "w": "write",
    "f": "flush",
    "n": "other",
}
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

    def is_request(self, line: str) -> bool:
        """Say whether a line that is no good one begins with a time."""
        return bool(re.match(r"\s*[0-9]+\.[0-9]+\s", line))

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
        "offset": "int?",
        "length": "int",
        "queue": "decimal?",
        "response": "decimal",
    },
    Units("s", "sectors", "bytes", response="ms"),
    OPERATIONS,
    delimiter=SEPARATOR,
    passed=r"^(?:\s*TIME\(s\)|\^C|Tracing )",
    pattern=r"^(?P<time>[0-9]{1,18}\.[0-9]{1,9})\s+(?P<process>[^\s].*?)\s+(?P<pid>[0-9]{1,18})\s+"
    r"(?:(?P<device>[^\s]+)\s+)?(?P<op>(?i:f?(?:[rwfn]|de?)f?a?s?m?))\s+"
    r"(?:-1|18446744073709551615|(?P<offset>[0-9]{1,18}))\s+(?P<length>[0-9]{1,18})(?:\s*[SR?])?"
    r"(?:\s+(?:-1\.0+|(?P<queue>[0-9]{1,9}\.[0-9]{1,9})))?"
    r"\s+(?P<response>[0-9]{1,9}\.[0-9]{1,9})\s*$",
)
