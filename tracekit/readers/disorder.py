"""Which requests of a foreign trace stand behind a later one, and lay over others when sorted."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tracekit.readers.units import Columns, show_example
from tracekit.units import counted

FEW = 5
"""So many are shown, and so many late times in an early place are taken for wrong lines."""

NEVER = int(np.iinfo(np.int64).min)

Times = NDArray[np.int64]


@dataclass
class Disorder:
    """Counts requests that stand behind a later one, while a trace is read."""

    behind: int = 0
    spikes: int = 0
    """Requests later than the next one, which goes on as those before: a wrong time."""
    others: int = 0
    """Requests behind a later one that is no spike."""
    lines: list[str] = field(default_factory=list)
    """The first spikes, and requests behind a later one that is none."""
    _latest: int = NEVER
    _usual: int = NEVER
    """The latest that is no spike, but for the last row."""
    _last: Times = field(default_factory=lambda: np.empty(0, np.int64))
    """The last two rows."""

    def see(self, columns: Columns) -> None:
        """Look at the times of some rows."""
        times = columns.numbers.get("time")
        if times is None or not columns.rows:
            return
        known, line = len(self._last), np.concatenate((self._last, times))
        if times[0] >= self._latest and not (times[1:] < times[:-1]).any():
            self._usual = max(self._usual, int(line[-2]) if len(line) > 1 else NEVER)
        else:
            tops = np.maximum.accumulate(np.concatenate(([self._latest], times)))
            self.behind += int(np.count_nonzero(times < tops[:-1]))
            rows = self._wrong_rows(line, first=max(known - 1, 0)) - known
            shown = rows[rows >= 0][: FEW - len(self.lines)].tolist()
            if shown and columns.block is not None:
                self.lines += map(show_example, columns.block.examples(shown))
        self._latest, self._last = max(self._latest, int(times.max())), line[-2:]

    def _wrong_rows(self, line: Times, *, first: int) -> Times:
        """Count spikes and others among the rows from `first` but for the last; return which."""
        rows, behind = line[first:-1], line[first + 1 :]
        before = np.concatenate(([NEVER], line))[first:-2]
        is_spike = (rows > behind) & (behind >= before)
        usual = np.concatenate(([self._usual], np.where(is_spike, NEVER, rows)))
        tops = np.maximum.accumulate(usual)
        is_late = ~is_spike & (rows < tops[:-1])
        self._usual = int(tops[-1])
        self.spikes += int(np.count_nonzero(is_spike))
        self.others += int(np.count_nonzero(is_late))
        return np.asarray(np.flatnonzero(is_spike | is_late) + first, np.int64)

    @property
    def count(self) -> int:
        """How many requests are not in order; those behind a few spikes are."""
        if self.spikes > FEW:
            return self.behind
        last = int(len(self._last) > 0 and self._last[-1] < self._usual)
        return min(self.behind, self.spikes + self.others + last)

    def in_words(self) -> str:
        """Return how many stand behind a later one, and a few of them."""
        said = f"{counted(self.count, 'request')} stood behind a later one"
        if not self.lines:
            return said
        before = " or before an earlier" if self.count <= FEW else ", the first of them"
        return f"{said}{before}: {'; '.join(self.lines)}"
