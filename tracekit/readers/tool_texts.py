"""Texts of tools that print each I/O when it ends: biosnoop, iosnoop, DTrace's, Windows' xperf."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow.compute as pc

from tracekit.readers import text
from tracekit.readers.text import BadLines, PatternFormat, column_kinds
from tracekit.readers.units import Columns, Units

KINDS = {"d": "discard", "de": "discard", "r": "read", "w": "write", "f": "flush", "n": "other"}
BIOSNOOP_FLAGS = ["".join(flags) for flags in product(("", "f"), ("", "a"), ("", "s"), ("", "m"))]
BIOSNOOP_OPERATIONS = {
    before + kind + flags: "readahead" if kind == "r" and "a" in flags else name
    for before in ("", "f")
    for kind, name in KINDS.items()
    for flags in BIOSNOOP_FLAGS
} | {f"fn{flags}": "flush" for flags in BIOSNOOP_FLAGS}
"""R and W of older versions, and the kernel's rwbs letters of newer ones."""


@dataclass(frozen=True)
class Biosnoop(PatternFormat):
    """Lines of biosnoop, of which the header names the columns."""

    def is_request(self, line: str) -> bool:
        """Say whether a line that is no good one begins with a time."""
        return bool(re.match(r"\s*[0-9]+\.[0-9]+\s", line))

    def decode(self, block: bytes | memoryview, lines: BadLines) -> Columns | None:
        """Decode whole lines; times become those at which the requests began."""
        columns = super().decode(block, lines)
        if columns is None:
            return None
        numbers = dict(columns.numbers)
        waited = numbers.pop("queue")
        spans = numbers["response"] + np.maximum(waited, 0)
        numbers["response"] = spans
        numbers["time"] = numbers["time"] - spans
        return replace(columns, numbers=numbers)


BIOSNOOP = Biosnoop(
    "biosnoop",
    column_kinds(
        "time:point process:word pid device:word op offset:int? length:int? queue:decimal?"
        " response:decimal"
    ),
    Units.of("s sectors bytes ms"),
    BIOSNOOP_OPERATIONS,
    delimiter=text.SEPARATOR,
    passed=r"^(?:\s*TIME\(s\)|\^C|Tracing )",
    pattern=r"^(?P<time>[0-9]{1,18}\.[0-9]{1,9})\s+(?P<process>[^\s].*?)\s+(?P<pid>[0-9]{1,18})\s+"
    r"(?:(?P<device>[^\s]+)\s+)?(?P<op>(?i:f?(?:[rwfn]|de?)f?a?s?m?))\s+"
    # What has no place has no data.
    r"(?:(?:-1|18446744073709551615)\s+0|(?P<offset>[0-9]{1,18})\s+(?P<length>[0-9]{1,18}))"
    r"(?:\s*[SR?])?"
    r"(?:\s+(?:-1\.0+|(?P<queue>[0-9]{1,9}\.[0-9]{1,9})))?"
    r"\s+(?P<response>[0-9]{1,9}\.[0-9]{1,9})\s*$",
)


@dataclass(frozen=True)
class Iosnoop(PatternFormat):
    """Lines of perf-tools' iosnoop, whose header begins with `first`: which of its times it has."""

    first: str = "STARTs"

    def matches(self, head: bytes, *, least: float = text.NEARLY_ALL) -> bool:
        """Say whether the head has the header with these times, and lines of them."""
        has_header = re.search(rf"^{self.first}\s.*\sLATms\s*$".encode(), head, re.MULTILINE)
        return has_header is not None and super().matches(head, least=least)

    def decode(self, block: bytes | memoryview, lines: BadLines) -> Columns | None:
        """Decode whole lines; times become those at which the requests were issued."""
        columns = super().decode(block, lines)
        return _begun(columns) if self.first == "ENDs" else columns


IOSNOOP = Iosnoop(
    "iosnoop",
    column_kinds("time:point process:word pid op device:word offset length response:decimal"),
    Units.of("s sectors bytes ms"),
    BIOSNOOP_OPERATIONS,
    delimiter=text.SEPARATOR,
    passed=r"^(?:COMM |STARTs |ENDs |\^C|Tracing |Ending )",
    pattern=r"^(?P<time>[0-9]{1,18}\.[0-9]{1,9})\s+(?:[0-9]{1,18}\.[0-9]{1,9}\s+)?"
    r"(?P<process>[^\s].*?)\s+(?P<pid>[0-9]{1,18})\s+(?P<op>(?i:f?(?:[rwfn]|de?)f?a?s?m?))\s+"
    r"(?P<device>[0-9]{1,4},[0-9]{1,7})\s+(?P<offset>[0-9]{1,18})\s+(?P<length>[0-9]{1,18})\s+"
    r"(?P<response>[0-9]{1,9}\.[0-9]{1,9})\s*$",
)


FLUSH = r"^(\s*DiskFlush,(?:[^,]*,){4})"


@dataclass(frozen=True)
class Xperf(PatternFormat):
    """A dump of Windows' events by xperf, among which those of disks have the time of their end.

    Published: SNIA's Microsoft Production Server traces, iotta.snia.org/traces/block-io/158.
    """

    def matches(self, head: bytes, *, least: float = text.NEARLY_ALL) -> bool:  # noqa: ARG002
        """Say whether the head names the columns of disk events, or has such events."""
        return bool(re.search(rb"^\s*DiskRead, +TimeStamp,", head, re.MULTILINE)) or any(
            self.are_good(head.decode(errors="replace").splitlines())
        )

    def decode(self, block: bytes | memoryview, lines: BadLines) -> Columns | None:
        """Decode whole lines; times become those at which the requests began."""
        return _begun(super().decode(block, lines))

    def _separated(self, text: Any) -> Any:
        """Return the groups of each line; a flush has no place and no length."""
        return super()._separated(pc.replace_substring_regex(text, FLUSH, r"\1 0x0, 0x0,"))

    def are_good(self, lines: Sequence[str]) -> list[bool]:
        """Say of each line whether it matches, flushes among them."""
        return super().are_good([re.sub(FLUSH, r"\1 0x0, 0x0,", line) for line in lines])


def _begun(columns: Columns | None) -> Columns | None:
    """Return the columns with times of the beginning in place of those of the end."""
    if columns is None or "response" not in columns.numbers:
        return columns
    numbers = dict(columns.numbers)
    numbers["time"] = numbers["time"] - np.maximum(numbers["response"], 0)
    return replace(columns, numbers=numbers)


XPERF = Xperf(
    "xperf",
    column_kinds("op time process:word pid:int? offset length response:int device:word"),
    Units.of("us bytes bytes us"),
    {"diskread": "read", "diskwrite": "write", "diskflush": "flush"},
    delimiter=text.SEPARATOR,
    passed=r"^(?!\s*Disk(?:Read|Write|Flush),\s*[0-9])",
    pattern=r"^\s*(?P<op>Disk(?:Read|Write|Flush)),\s*(?P<time>[0-9]{1,18}),"
    r"\s*(?P<process>[^,]*?)\s*\(\s*(?:(?P<pid>[0-9]{1,9})|-?[0-9]+)\),[^,]*,[^,]*,"
    r"\s*(?P<offset>0[xX][0-9a-fA-F]{1,15}),\s*(?P<length>0[xX][0-9a-fA-F]{1,8}),"
    r"\s*(?P<response>[0-9]{1,15}),\s*(?P<device>[0-9]{1,5})(?:,.*)?$",
)


DTRACE_COLUMNS = {
    "STIME(us)": r"(?P<time>[0-9]{1,18})",
    "TIME(us)": r"(?P<end>[0-9]{1,18})",
    "DELTA(us)": r"(?P<response>[0-9]{1,15})",
    "DTIME(us)": r"[0-9]+",
    "STRTIME": r"[0-9]{4} [A-Z][a-z]{2} +[0-9]{1,2} [0-9:]{8}",
    "DEVICE": r"(?P<device>[^\s]+)",
    "INS": r"[0-9]+",
    "MAJ": r"[0-9]+",
    "MIN": r"[0-9]+",
    "UID": r"[0-9]+",
    "PID": r"(?P<pid>[0-9]{1,9})",
    "D": r"(?P<op>[RW])",
    "BLOCK": r"(?P<offset>[0-9]{1,18})",
    "SIZE": r"(?P<length>[0-9]{1,12})",
    "COMM": r"(?P<process>[^\s]+)",
    "ARGS": r".*",
    "PATHNAME": r".*",
}
"""What stands below each column of DTrace's iosnoop."""
DTRACE_HEAD = re.compile(rb"^ *((?:[A-Z()us]+ +)*UID +PID +D +BLOCK +SIZE +[A-Z ]+)$", re.MULTILINE)
DTRACE_KINDS = {
    **dict.fromkeys(("time", "offset", "length", "pid", "response"), "int"),
    "op": "op",
    "device": "word",
    "process": "word",
}


@dataclass(frozen=True)
class DtraceIosnoop(PatternFormat):
    """Lines of DTrace's iosnoop, whose header names the columns that its options chose."""

    is_of_end: bool = False
    """Whether times are those of the ends."""

    def decode(self, block: bytes | memoryview, lines: BadLines) -> Columns | None:
        """Decode whole lines; times become those at which the requests began."""
        columns = super().decode(block, lines)
        return _begun(columns) if self.is_of_end else columns


def _dtrace(names: list[str]) -> DtraceIosnoop:
    """Return the format of lines below these names."""
    parts = [DTRACE_COLUMNS[name] for name in names]
    is_of_end = "STIME(us)" not in names
    pattern = r"\s+".join(parts)
    pattern = pattern.replace("<end>", "<time>") if is_of_end else pattern.replace("?P<end>", "?:")
    groups = re.findall(r"\?P<(\w+)>", pattern)
    return DtraceIosnoop(
        "dtrace-iosnoop",
        {name: DTRACE_KINDS[name] for name in groups},
        Units.of("us sectors bytes us"),
        text.READ_OR_WRITE,
        delimiter=text.SEPARATOR,
        passed=r"^(?:.* UID |UID |dtrace: |\^C)",
        pattern=rf"^\s*{pattern}$",
        is_of_end=is_of_end,
    )


DTRACE = _dtrace(["UID", "PID", "D", "BLOCK", "SIZE", "COMM", "PATHNAME"])


def dtrace_iosnoop(head: bytes) -> DtraceIosnoop | None:
    """Return the format of the lines below a header of DTrace's iosnoop, None without one."""
    found = DTRACE_HEAD.search(head)
    names = found[1].decode().split() if found else []
    if not names or not set(names) <= DTRACE_COLUMNS.keys():
        return None
    return replace(_dtrace(names), evidence="its header names the columns of DTrace's iosnoop")
