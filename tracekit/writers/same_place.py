"""Requests of one place in flight together: a text of events cannot say which completes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
KEY = ("device", "letter", "begin", "sectors")
"""By which import, as others, finds the request of an event."""
NAMES = (*KEY, "queue", "issue", "end", "pid")
NONE = -1
NEVER = int(np.iinfo(np.int64).max)
"""The end of a request that does not complete."""
QUEUED, ISSUED, ENDED = range(3)
"""Events, in their order at one time."""


@dataclass
class SamePlace:
    """Counts requests that get the completion of another one when the text is read.

    `import` gives an event to the newest request of its place and size: of those that were
    issued first, and of the event's process. Where only some requests have a time of issue, those
    of another size at the place can be exchanged, too, and are not counted.
    """

    exchanged: int = 0
    _open: dict[str, Numbers] = field(
        default_factory=lambda: {name: np.empty(0, np.int64) for name in NAMES}
    )
    """Requests that later ones may meet, and those that they met."""

    def add(self, found: dict[str, Numbers], *, begin_ns: int) -> None:
        """Take requests in order of time, of which the first begins at `begin_ns`."""
        self._close(begin_ns)
        self._open = {name: np.concatenate((self._open[name], found[name])) for name in NAMES}

    def finish(self) -> int:
        """Return how many were exchanged in all."""
        self._close(NEVER)
        return self.exchanged

    def _close(self, begin_ns: int) -> None:
        """Count what was exchanged among requests that none from `begin_ns` on can meet."""
        rows = self._open
        if not len(rows["queue"]):
            return
        order = np.lexsort([rows[name] for name in ("queue", *reversed(KEY))])
        rows = {name: values[order] for name, values in rows.items()}
        group, last = _groups(rows)
        is_over = (last[group] < begin_ns) | (begin_ns == NEVER)
        sizes = np.bincount(group)
        is_shared = is_over & (sizes[group] > 1)
        for first, end in _runs(group[is_shared]):
            shared = {name: values[is_shared][first:end].tolist() for name, values in rows.items()}
            self.exchanged += _exchanged(shared)
        self._open = {name: values[~is_over] for name, values in rows.items()}


def _groups(rows: dict[str, Numbers]) -> tuple[Numbers, Numbers]:
    """Return the group of each row, of requests that are in flight together, and each one's end."""
    ends = np.where(rows["end"] == NONE, NEVER, rows["end"])
    is_new = np.ones(len(ends), np.bool_)
    is_new[1:] = np.any([rows[name][1:] != rows[name][:-1] for name in KEY], axis=0)
    place = np.cumsum(is_new) - 1
    # The latest end so far of each place: ranks of ends, and each place behind those before.
    values, ranks = np.unique(ends, return_inverse=True)
    latest = values[np.maximum.accumulate(place * len(values) + ranks) - place * len(values)]
    is_new[1:] |= rows["queue"][1:] > latest[:-1]
    group = np.cumsum(is_new) - 1
    last = np.full(int(group[-1]) + 1, NONE, np.int64)
    np.maximum.at(last, group, ends)
    return np.asarray(group, np.int64), last


def _runs(group: Numbers) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the rows of each group."""
    if len(group):
        starts = np.flatnonzero(np.diff(group, prepend=NONE)).tolist()
        yield from zip(starts, [*starts[1:], len(group)], strict=True)


def _exchanged(rows: dict[str, list[int]]) -> int:
    """Return how many requests of one place get another's completion, as `import` pairs them."""
    count = len(rows["queue"])
    moments = zip(rows["queue"], rows["issue"], rows["end"], strict=True)
    events = sorted(
        (time, action, row)
        for row, times in enumerate(moments)
        for action, time in zip((QUEUED, ISSUED, ENDED), times, strict=True)
        if time != NONE
    )
    waiting, issued, given = list[int](), list[int](), dict[int, int]()
    for time, action, row in events:
        if action == QUEUED:
            waiting.append(row)
        elif action == ISSUED:
            if waiting:
                issued.append(_newest(waiting, rows["pid"], pid=rows["pid"][row]))
        elif open_rows := issued or waiting:
            given[_newest(open_rows, rows["pid"], pid=0)] = time
    return sum(given.get(row, NONE) != rows["end"][row] for row in range(count))


def _newest(rows: list[int], pids: list[int], *, pid: int) -> int:
    """Take the newest of the rows, of the event's process if there is one."""
    own = [row for row in rows if pids[row] == pid]
    found = max(own or rows)
    rows.remove(found)
    return found
