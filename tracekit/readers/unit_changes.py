"""Units of places or lengths that change within a trace, or their columns: parts contradict others.

Numbers of bytes are multiples of 512, numbers of sectors seldom are. A part of which few are, and
another of which nearly all are, may be of one unit still: large requests after small ones. So the
lengths must be the same ones times 512, or the places lie as much farther and requests be small.

In a part whose columns are exchanged, places are lengths of the others, and lengths larger than
these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracekit.readers.units import Columns, show_example
from tracekit.units import SECTOR_BYTES

LEAST_ROWS = 64
MOST_ROWS = 1 << 13
"""Up to so many rows come in 32 pieces, more in 8."""
SAMPLED = 256
"""Of a piece so many rows are looked at, or fewer, evenly over it."""
FEW, NEARLY_ALL = 0.2, 0.95
FARTHER = 64
"""Times the places of the other part, which need not lie in the same region."""
FAR_PERCENT = 90
SAME = 0.9
LEAST_SHARE = 0.05
"""Of a length that counts: two such are needed, since many traces have one length in a part."""
MOST_LENGTHS = 1024
FREQUENT = 0.01
RUN = 8
"""Of so many rows, among four times as many one behind the other, the columns are exchanged."""
LARGE_BYTES = 256 << 10
"""Of requests that begin at multiples of 512 sectors by themselves."""

Numbers = Any


@dataclass
class UnitChanges:
    """What is seen of the pieces of a trace while it is read."""

    length_bytes: int
    """Of one unit of the column of lengths."""
    found: list[str] = field(default_factory=list)
    """The changes, in words; at most one of places and one of lengths."""
    _far: dict[bool, int] = field(default_factory=dict)
    """How far places lie in the pieces with few, or nearly all, multiples of 512."""
    _lengths: dict[bool, set[int]] = field(default_factory=lambda: {False: set(), True: set()})
    """Lengths in the same."""
    _done: set[str] = field(default_factory=set)
    _usual: Numbers = None
    """Frequent lengths of the first rows."""

    def see(self, columns: Columns) -> None:
        """Look at some rows; what has no length, as a flush, has no place either."""
        lengths, places = (columns.numbers.get(name) for name in ("length", "offset"))
        if lengths is None or places is None or columns.block is None:
            return
        self._see_exchange(columns, places, lengths)
        size = max(LEAST_ROWS, -(-columns.rows // (32 if columns.rows <= MOST_ROWS else 8)))
        for begin in range(0, columns.rows - LEAST_ROWS + 1, size):
            rows = slice(begin, begin + size, -(-size // SAMPLED))
            has_data = lengths[rows] > 0
            if np.count_nonzero(has_data) < LEAST_ROWS // 2:
                continue
            is_same = self._see_lengths(columns, begin, lengths[rows][has_data])
            usual_bytes = float(np.median(lengths[rows][has_data])) * self.length_bytes
            if is_same or usual_bytes < LARGE_BYTES:
                self._see_places(columns, begin, places[rows][has_data])

    def _see_exchange(self, columns: Columns, places: Numbers, lengths: Numbers) -> None:
        if self._usual is None:
            sample = lengths[lengths > 0][:: max(1, len(lengths) // MOST_LENGTHS)]
            values, counts = np.unique(sample, return_counts=True)
            self._usual = values[counts >= max(FREQUENT * len(sample), 2)]
        if "exchange" in self._done or not len(self._usual):
            return
        rows = np.flatnonzero(lengths > self._usual[-1])
        rows = rows[np.isin(places[rows], self._usual)] if len(rows) >= RUN else rows
        begins = np.flatnonzero(rows[RUN - 1 :] - rows[: 1 - RUN] < 4 * RUN)
        if len(begins) and columns.block is not None:
            self._done.add("exchange")
            shown = show_example(columns.block.examples([int(rows[begins[0]])])[0])
            self.found.append(
                f"places and lengths are exchanged from about here: {shown}: its place is a usual"
                " length, and its length none; import each part by itself"
            )

    def _see_places(self, columns: Columns, row: int, places: Numbers) -> None:
        kind = _has_multiples(places)
        if kind is None:
            return
        far = int(np.percentile(places, FAR_PERCENT))
        if (not kind) in self._far:
            low, high = (self._far[False], far) if kind else (far, self._far[True])
            if high >= FARTHER * max(low, SECTOR_BYTES):
                self._add("places", columns, row, kind=kind)
        self._far[kind] = max(far, self._far.get(kind, 0))

    def _see_lengths(self, columns: Columns, row: int, lengths: Numbers) -> bool:
        """Return whether they are those of other pieces in the other unit."""
        kind = _has_multiples(lengths)
        if kind is None:
            return False
        values, counts = np.unique(lengths, return_counts=True)
        own = dict(zip(values.tolist(), (counts / len(lengths)).tolist(), strict=True))
        factor = 1 / SECTOR_BYTES if kind else SECTOR_BYTES
        same = [share for value, share in own.items() if value * factor in self._lengths[not kind]]
        is_same = float(sum(same)) >= SAME
        if is_same and sum(share >= LEAST_SHARE for share in same) > 1:
            self._add("lengths", columns, row, kind=kind)
        if len(self._lengths[kind]) < MOST_LENGTHS:
            self._lengths[kind].update(own)
        return is_same

    def _add(self, what: str, columns: Columns, row: int, *, kind: bool) -> None:
        if what in self._done or columns.block is None:
            return
        self._done.add(what)
        shares = ("few", "nearly all") if kind else ("nearly all", "few")
        shown = show_example(columns.block.examples([row])[0])
        self.found.append(
            f"the unit of {what} changes about here: {shown}: before, {shares[0]} are multiples of"
            f" {SECTOR_BYTES}, from there on {shares[1]}; import each part by itself"
        )


def _has_multiples(values: Numbers) -> bool | None:
    """Say whether nearly all are multiples of 512, or few; None if neither."""
    share = float(np.mean(values % SECTOR_BYTES == 0))
    return True if share >= NEARLY_ALL else False if share <= FEW else None
