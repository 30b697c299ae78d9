"""Where the clock of a text starts again: traces of the same time, or one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.arrow import texts
from tracekit.errors import InputError
from tracekit.readers.units import Columns, show_example

FEWEST_ROWS = 32
LEAST_SHARE = 0.005
"""Of all rows: a part with fewer is disorder."""
BACK_RATIO = 0.5
"""Of a part's span: a clock that starts again goes so far back at least."""
MOST_TRIES = 1000
"""Rows that go back and forth more often are in no order at all."""

Times = NDArray[np.int64]


@dataclass
class Part:
    """Rows of one clock, in the file's order; times are those of the file."""

    row: int
    """The first."""
    first: int
    shown: str = ""
    """The line of the first row."""
    top: int = 0
    rows: int = 0
    is_tried: bool = False
    """So few rows are known that it can still be disorder."""
    devices: set[tuple[int, ...]] = field(default_factory=set)
    """Their codes, where times count from 1970."""


@dataclass(frozen=True)
class Shifts:
    """What brings the times of later parts behind those before."""

    rows: NDArray[np.int64]
    """The first of each part."""
    added: NDArray[np.int64]

    def shifted(self, times: Times, *, row: int) -> Times:
        """Return the times of the rows from this one on, as one clock has them."""
        parts = np.searchsorted(self.rows, np.arange(row, row + len(times)), side="right") - 1
        return times + self.added[parts]


class RestartError(InputError):
    """The clock starts again, and the parts are to be put one behind the other."""

    def __init__(self, message: str, *more: str, shifts: Shifts, hint: str) -> None:
        super().__init__(message, *more, hint=hint)
        self.shifts = shifts


class Restarts:
    """What is seen of the times while a trace is read."""

    def __init__(self, *, is_wall: bool) -> None:
        """Of times that count from 1970 volumes may stand one after the other."""
        self._is_wall = is_wall
        self._parts: list[Part] = []
        self._tries = 0

    def see(self, columns: Columns, *, row: int) -> None:
        """Look at the times of some rows; `row` is the number of the first."""
        times = columns.numbers.get("time")
        if times is None or not columns.rows or self._tries > MOST_TRIES:
            return
        if not self._parts:
            self._parts = [Part(row, int(times[0]), top=int(times[0]))]
        codes = _device_codes(columns) if self._is_wall else []
        at = 0
        while at < len(times) and self._tries <= MOST_TRIES:
            last = len(self._parts) - 1
            count = self._take(times[at:], columns, row=row + at, at=at)
            part = self._parts[min(last, len(self._parts) - 1)]  # one that was given up is gone
            part.devices |= _devices(codes, slice(at, at + count))
            at += count

    def _take(self, times: Times, columns: Columns, *, row: int, at: int) -> int:
        """Take rows into the last part, up to one that begins another; return how many."""
        part = self._parts[-1]
        if part.is_tried and (count := self._try(part, times)):
            return count
        is_rising = times[0] >= part.top and bool((times[1:] >= times[:-1]).all())
        if is_rising:
            part.top, part.rows = int(times[-1]), part.rows + len(times)
            return len(times)
        tops = np.maximum(np.maximum.accumulate(times), part.top)
        back = tops - times
        is_back = (back > 0) & (back >= BACK_RATIO * (tops - part.first))
        is_back[: max(FEWEST_ROWS - part.rows, 0)] = False
        end = int(np.argmax(is_back)) if is_back.any() else len(times)
        if end:
            part.top, part.rows = int(tops[end - 1]), part.rows + end
        if end < len(times):
            first, shown = int(times[end]), ""
            if columns.block is not None:
                shown = show_example(columns.block.examples([at + end])[0])
            self._parts.append(Part(row + end, first, shown, top=first, is_tried=True))
        return end

    def _try(self, part: Part, times: Times) -> int:
        """Take the first rows of a part; give it up where they go on as those before it."""
        before = self._parts[-2]
        most = min(FEWEST_ROWS, before.rows // 4)
        some = times[: most - part.rows]
        limit = before.top - (before.top - part.first) // 2
        part.top, part.rows = max(part.top, int(some.max())), part.rows + len(some)
        is_whole = part.rows >= most
        if part.top > limit or (is_whole and int(some[-1]) < part.first):
            self._parts.pop()
            before.devices |= part.devices
            before.top, before.rows = max(before.top, part.top), before.rows + part.rows
            self._tries += 1
        elif is_whole:
            part.is_tried = False
        return len(some)

    def parts(self) -> list[Part]:
        """Return the parts of a trace that was read; one if its clock never starts again."""
        if self._tries > MOST_TRIES:
            return self._parts[:1]
        least = max(FEWEST_ROWS, LEAST_SHARE * sum(part.rows for part in self._parts))
        found: list[Part] = []
        for part in self._parts:
            if found and min(part.rows, found[-1].rows) < least:
                found[-1].rows += part.rows
                found[-1].top = max(found[-1].top, part.top)
                found[-1].devices |= part.devices
            else:
                found.append(part)
        return found

    def doubted(self) -> list[Part]:
        """Return the later parts, but for other devices whose times are dates of their own."""
        known, found = set[tuple[int, ...]](), list[Part]()
        for part in self.parts():
            if known and not (self._is_wall and known.isdisjoint(part.devices)):
                found.append(part)
            known |= part.devices or {()}
        return found

    def shifts(self) -> Shifts:
        """Return what puts the parts one behind the other, with no pause between them."""
        found, end = list[int](), None
        for part in self.parts():
            found.append(0 if end is None else end - part.first)
            end = part.top + found[-1]
        rows = np.array([part.row for part in self.parts()], np.int64)
        return Shifts(rows, np.array(found, np.int64))


def _device_codes(columns: Columns) -> list[NDArray[Any]]:
    """Return the columns that name the device of each row, as codes that all blocks share."""
    names = [name for name in ("device", "volume") if name in columns.words]
    return [texts(columns.words[name])[1] for name in names]


def _devices(codes: list[NDArray[Any]], rows: slice) -> set[tuple[int, ...]]:
    """Return the devices of these rows."""
    if not codes:
        return set()
    sizes = [int(column.max()) + 1 for column in codes]
    places = np.ravel_multi_index([column[rows] for column in codes], sizes)
    found = np.unravel_index(np.flatnonzero(np.bincount(places)), sizes)
    return set(zip(*(column.tolist() for column in found), strict=True))
