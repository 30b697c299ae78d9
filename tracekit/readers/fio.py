"""fio's I/O logs, versions 2 and 3: one request a line, beside lines that add and open files.

Version 3 has the time of each line in us since fio's start. Version 2 has times on lines of their
own, `FILE wait T 0`: fio's code takes T as ms since its start, though its documentation says us
since the wait before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracekit.arrow import texts
from tracekit.errors import InputError
from tracekit.readers.text import BadLines, TextFormat, column_kinds
from tracekit.readers.units import Columns, Units

ACTIONS = {
    "read": "read",
    "write": "write",
    "sync": "flush",
    "datasync": "flush",
    "sync_file_range": "flush",
    "trim": "discard",
}
WAIT = "wait"
FEWEST_WAITS = 3


@dataclass(frozen=True)
class FioLog(TextFormat):
    """An I/O log of fio, known by its first line; places and lengths are bytes within its files."""

    version: int = 3

    def matches(self, head: bytes, *, least: float = 0.0) -> bool:  # noqa: ARG002 - one line decides
        """Say whether the first line names this version."""
        return head.startswith(f"fio version {self.version} iolog".encode())

    def is_request(self, line: str) -> bool:
        """Say whether a line that is not a good one is a request, and not the log's first."""
        return not line.startswith("fio version") and super().is_request(line)

    def decode(self, block: bytes | memoryview, lines: BadLines) -> Columns | None:
        """Decode whole lines; a flush has no place, and the waits of version 2 become times.

        Raise InputError when the waits run backwards.
        """
        columns = super().decode(block, lines)
        if columns is None:
            return None
        words, indices = texts(columns.words["op"])
        kinds = np.array([self.operations[word.strip().lower()] for word in words])[indices]
        if self.version == 2:
            columns = _timed(columns, kinds == self.operations[WAIT], lines)
            kinds = kinds[kinds != self.operations[WAIT]]
        numbers = dict(columns.numbers)
        for name in ("offset", "length"):
            numbers[name] = np.where(kinds == "flush", 0, numbers[name])
        return replace(columns, numbers=numbers) if columns.rows else None


def same_waits(lines: BadLines) -> list[str]:
    """Return in words that all waits of a log of version 2 are the same, if they are.

    As ms since fio's start, which fio takes them for, all requests would be of one moment.
    """
    if lines.times < FEWEST_WAITS or not 0 < lines.first_time == lines.carried_time:
        return []
    return [
        f"each of {lines.times:,} waits is {lines.first_time}: fio takes them as ms since its"
        " start, and these seem to count from the wait before"
    ]


def _timed(columns: Columns, is_wait: object, lines: BadLines) -> Columns:
    """Return the requests without the waits, each with the time of the last wait before it."""
    waits = np.asarray(is_wait, np.bool_)
    ends = np.concatenate(([lines.carried_time], columns.numbers["offset"][waits]))
    if (np.diff(ends) < 0).any():
        place = int(np.flatnonzero(np.diff(ends) < 0)[0])
        raise InputError(
            f"the waits run backwards, from {ends[place]} to {ends[place + 1]}: fio takes them as"
            " ms since its start, and these seem to count from the wait before",
            hint="write the log again with a newer fio: version 3 has the time of each request",
        )
    if len(ends) > 1 and not lines.times:
        lines.first_time = int(ends[1])
    lines.times += len(ends) - 1
    lines.carried_time = int(ends[-1])
    rest = columns.without(np.flatnonzero(waits))
    return replace(rest, numbers={**rest.numbers, "time": ends[np.cumsum(waits)][~waits]})


V2 = FioLog(
    "fio2",
    column_kinds("device:word op offset length"),
    Units("ms", "bytes", "bytes", settled_time="ms"),
    {**ACTIONS, WAIT: "other"},
    delimiter=" ",
    passed=r"^[^ ]+ (?:add|open|close)\s*$",
    version=2,
)
V3 = FioLog(
    "fio3",
    column_kinds("time device:word op offset length"),
    Units("us", "bytes", "bytes"),
    ACTIONS,
    delimiter=" ",
    passed=r"^[0-9]+ [^ ]+ (?:add|open|close)\s*$",
)
