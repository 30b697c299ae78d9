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
"""Of a part, and of rows that lie over the part before: fewer are disorder."""
LEAST_SHARE = 0.005
"""Of all rows: a part with fewer is disorder."""
BACK_RATIO = 0.5
"""Of a part's span: whatever goes back so far starts again."""
MOST_PARTIAL = 5
"""Sorted rows that go back less far more often come from several buffers of one clock."""
MOST_PARTS = 1000
"""Rows that go back and forth more often are in no order at all."""
SHORT, LONG = 8, 32
"""Rows in a row that have a time at least, or none of a later one: of a short part, or a long."""
MOST_FALLS = 8
"""Among LONG rows: of rows in any order half fall."""
LONG_FROM = 128
"""Rows of a long part."""
SLICE_ROWS = 1 << 14

NEVER = int(np.iinfo(np.int64).min)
"""Earlier than all times."""

Times = NDArray[np.int64]


@dataclass
class Part:
    """Rows of one clock, in the file's order; times are those of the file."""

    row: int
    """The first."""
    first: int
    shown: str = ""
    """The line of the first row."""
    is_partial: bool = False
    """It goes back by less than BACK_RATIO."""
    limit: int = NEVER
    """The level of the part before: earlier rows lie over it."""
    rows: int = 0
    over: int = 0
    """Rows that lie over the part before."""
    levels: tuple[int, int] = (NEVER, NEVER)
    """The latest times that SHORT and LONG rows in a row have or exceed."""
    tail: Times = field(default_factory=lambda: np.empty(0, np.int64))
    """The last rows."""
    devices: set[tuple[int, ...]] = field(default_factory=set)
    """Their codes, where times count from 1970."""

    @property
    def level(self) -> int:
        """A time up to which the part goes, whatever a few wrong times say."""
        return max(self.first, self.levels[int(self.rows >= LONG_FROM)])

    @property
    def end(self) -> int:
        """The last time but for those far behind all others."""
        near = self.tail[self.tail <= self.level + max(self.level - self.first, 0)]
        return max(self.level, int(near.max(initial=self.level)))

    def take(self, times: Times, devices: set[tuple[int, ...]]) -> None:
        """Take some rows."""
        if not len(times):
            return
        # Of rising times the last have the level.
        line = np.concatenate((self.tail, times[-2 * LONG :] if _are_rising(times) else times))
        short, long = self.levels_at(line)
        self.levels = int(short[-1]), int(long[-1])
        self.tail = line[-LONG:]
        self.rows += len(times)
        self.over += int(np.count_nonzero(times < self.limit))
        self.devices |= devices

    def levels_at(self, line: Times) -> list[Times]:
        """Return both levels as they are behind each row of the tail and what follows it."""
        return [
            np.maximum(np.maximum.accumulate(_least_of_last(line, size)), level)
            for size, level in zip((SHORT, LONG), self.levels, strict=True)
        ]

    def join(self, other: Part) -> None:
        """Take the rows of the next part, which is none."""
        (short, long), (others_short, others_long) = self.levels, other.levels
        self.levels = max(short, others_short), max(long, others_long)
        self.rows, self.tail = self.rows + other.rows, other.tail
        self.devices |= other.devices


@dataclass(frozen=True)
class Shifts:
    """What brings the times of later parts behind those before."""

    rows: NDArray[np.int64]
    """The first of each part."""
    added: NDArray[np.int64]
    has_twins: bool = False
    """Two parts may be the same trace."""

    def shifted(self, times: Times, *, row: int) -> Times:
        """Return the times of the rows from this one on, as one clock has them."""
        parts = np.searchsorted(self.rows, np.arange(row, row + len(times)), side="right") - 1
        return times + self.added[parts]


class RestartError(InputError):
    """The clock starts again, and the parts are to be put one behind the other."""

    def __init__(self, message: str, *more: str, shifts: Shifts, hint: str) -> None:
        super().__init__(message, *more, hint=hint)
        self.shifts = shifts


@dataclass(frozen=True)
class Start:
    """Where rows may begin another part."""

    at: int
    level: int
    """Of the part before."""
    is_partial: bool
    is_certain: bool
    """Enough rows behind it are known."""


class Restarts:
    """What is seen of the times while a trace is read.

    A part begins where rows in a row are all earlier than as many rows before them: so neither a
    wrong time nor a few lines at another place are a clock that starts again.
    """

    def __init__(self, *, is_wall: bool) -> None:
        """Of times that count from 1970 volumes may stand one after the other."""
        self._is_wall = is_wall
        self._parts: list[Part] = []
        self._partial = 0
        self._held: Times = np.empty(0, np.int64)
        """Rows of which it is not known yet whether another part begins with them."""
        self._held_codes = np.empty((0, 0), np.int64)
        self._shown = ""
        """The first held line."""

    def see(self, columns: Columns, *, row: int) -> None:
        """Look at the times of some rows; `row` is the number of the first."""
        times = columns.numbers.get("time")
        if times is None or not columns.rows or len(self._parts) > MOST_PARTS:
            return
        codes = _device_codes(columns) if self._is_wall else np.empty((0, columns.rows), np.int64)
        if not self._parts:
            self._parts = [Part(row, int(times[0]))]
        part = self._parts[-1]
        if not len(self._held) and times[0] >= part.level and _are_rising(times):
            part.take(times, _devices(codes))
            return
        for first in range(0, len(times), SLICE_ROWS):
            piece = slice(first, first + SLICE_ROWS)
            self._take(times[piece], codes[:, piece], columns, row=row, at=first)

    def _take(
        self, times: Times, codes: NDArray[Any], columns: Columns, *, row: int, at: int
    ) -> None:
        """Take rows into the last part and into those that begin with one of them."""
        first = at - len(self._held)
        """The place in the block of the first row that is not taken yet."""
        if len(self._held):
            times = np.concatenate((self._held, times))
            codes = np.concatenate((self._held_codes, codes), axis=1)
        self._held = times[:0]
        while len(times) and len(self._parts) <= MOST_PARTS:
            part = self._parts[-1]
            start = _next_start(part, times, takes_partial=self._partial <= MOST_PARTIAL)
            end = len(times) if start is None else start.at
            part.take(times[:end], _devices(codes[:, :end]))
            times, codes, first = times[end:], codes[:, end:], first + end
            if start is None:
                break
            shown = self._shown
            if first >= 0 and columns.block is not None:
                shown = show_example(columns.block.examples([first])[0])
            if not start.is_certain:
                self._held, self._held_codes, self._shown = times, codes, shown
                break
            self._begin(Part(row + first, int(times[0]), shown, start.is_partial, start.level))
            count = min(FEWEST_ROWS, len(times))
            self._parts[-1].take(times[:count], _devices(codes[:, :count]))
            times, codes, first = times[count:], codes[:, count:], first + count

    def _begin(self, part: Part) -> None:
        """Begin another part; one of a few rows that lie over others was disorder."""
        last = self._parts[-1]
        if last.is_partial and last.over < FEWEST_ROWS:
            self._parts.pop()
            self._parts[-1].join(last)
            self._partial -= 1
        self._parts.append(part)
        self._partial += part.is_partial

    def parts(self) -> list[Part]:
        """Return the parts of a trace that was read; one if its clock never starts again."""
        if len(self._parts) > MOST_PARTS:
            return self._parts[:1]
        if len(self._held):
            self._parts[-1].take(self._held, _devices(self._held_codes))
            self._held = self._held[:0]
        least = max(FEWEST_ROWS, LEAST_SHARE * sum(part.rows for part in self._parts))
        found: list[Part] = []
        for part in self._parts:
            if (found and _is_disorder(found[-1], part, least)) or (
                part.is_partial and self._partial > MOST_PARTIAL
            ):
                found[-1].join(part)
            else:
                found.append(part)
        self._parts = found
        return found

    def doubted(self) -> list[Part]:
        """Return the later parts, but for other devices whose times are dates of their own."""
        known, found = set[tuple[int, ...]](), list[Part]()
        for part in self.parts():
            if known and not (self._is_wall and known.isdisjoint(part.devices)):
                found.append(part)
            known |= part.devices or {()}
        return found

    def has_twins(self) -> bool:
        """Say whether two parts begin at one time with as many rows."""
        parts = self.parts()
        return len({(part.first, part.rows) for part in parts}) < len(parts)

    def shifts(self) -> Shifts:
        """Return what puts the parts one behind the other, with no pause between them."""
        found, end = list[int](), None
        for part in self.parts():
            found.append(0 if end is None else end - part.first)
            end = part.end + found[-1]
        rows = np.array([part.row for part in self.parts()], np.int64)
        return Shifts(rows, np.array(found, np.int64), self.has_twins())


def _is_disorder(before: Part, part: Part, least: float) -> bool:
    """Say whether a part is too small, or too few of its rows lie over the part before."""
    few = min(least, before.rows // 2)
    return min(part.rows, before.rows) < least or part.over < few


def _next_start(part: Part, times: Times, *, takes_partial: bool) -> Start | None:
    """Return the first row with which another part may begin, if there is one.

    It and the rows behind it are earlier than the part's level: by BACK_RATIO of its span, or
    less in order of time.
    """
    known = len(part.tail)
    levels = part.levels_at(np.concatenate((part.tail, times)))
    short, long = (
        np.concatenate(([before], level[known:]))[:-1]
        for before, level in zip(part.levels, levels, strict=True)
    )
    is_short = np.arange(part.rows, part.rows + len(times)) < LONG_FROM
    level = np.maximum(np.where(is_short, short, long), part.first)
    if not (times < level).any():
        return None
    most, latest = _most_of_next(times, SHORT), _most_of_next(times, LONG)
    last = times[np.minimum(np.arange(LONG - 1, LONG - 1 + len(times)), len(times) - 1)]
    half = level - ((level - part.first) * BACK_RATIO).astype(np.int64)
    is_back = (level > part.first) & (latest <= half) & (last >= times) & (times < half)
    is_run = is_short & (most < level) & (_falls_in_next(times, SHORT) == 0)
    is_run |= ~is_short & (latest < level) & (_falls_in_next(times, LONG) <= MOST_FALLS)
    is_run &= takes_partial | (most <= half)
    is_start = (is_back | is_run) & (np.arange(part.rows, part.rows + len(times)) >= FEWEST_ROWS)
    if not is_start.any():
        return None
    at = int(np.argmax(is_start))
    needed = SHORT if is_run[at] and is_short[at] else LONG
    return Start(at, int(level[at]), bool(most[at] > half[at]), at + needed <= len(times))


def _are_rising(times: Times) -> bool:
    return bool((times[1:] >= times[:-1]).all())


def _least_of_last(times: Times, size: int) -> Times:
    """Return the least of each row and those before it, `size` in all; NEVER if they are fewer."""
    found = np.full(len(times), NEVER)
    if len(times) >= size:
        found[size - 1 :] = _folded(np.minimum, times, size)
    return found


def _most_of_next(times: Times, size: int) -> Times:
    """Return the latest of each row and those behind it, `size` in all or as many as there are."""
    return _folded(np.maximum, np.concatenate((times, np.full(size - 1, NEVER))), size)


def _folded(best: np.ufunc, times: Times, size: int) -> Times:
    """Return the best of so many rows in a row, a power of 2, from each row."""
    step = 1
    while step < size:
        times = best(times[step:], times[:-step])
        step *= 2
    return times


def _falls_in_next(times: Times, size: int) -> Times:
    """Return how often times fall among the next rows, `size` of them or as many as there are."""
    falls = np.concatenate(([0], np.cumsum(times[1:] < times[:-1])))
    ends = np.minimum(np.arange(size - 1, size - 1 + len(times)), len(times) - 1)
    return np.asarray(falls[ends] - falls, np.int64)


def _device_codes(columns: Columns) -> NDArray[Any]:
    """Return the columns that name the device of each row, as codes that all blocks share."""
    names = [name for name in ("device", "volume") if name in columns.words]
    codes = [texts(columns.words[name])[1] for name in names]
    return np.array(codes) if codes else np.empty((0, columns.rows), np.int64)


def _devices(codes: NDArray[Any]) -> set[tuple[int, ...]]:
    if not codes.size:
        return set()
    sizes = [int(column.max()) + 1 for column in codes]
    places = np.ravel_multi_index(list(codes), sizes)
    found = np.unravel_index(np.flatnonzero(np.bincount(places)), sizes)
    return set(zip(*(column.tolist() for column in found), strict=True))
