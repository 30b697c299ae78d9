"""Strays: requests whose time, place or length lies apart from nearly all others.

One such line makes a whole trace look as if its units were wrong. A trace is then read once more
without its strays, which count as wrong lines, but only where no unit could explain them: what
they are told from is where nearly all requests lie, by quantiles of an even sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.formats.foreign import FILETIME_OF_1970, SIZE_BYTES, TIME_NS, Columns, Units
from tracekit.formats.plausible import EPOCH_S, LARGEST_LENGTH_BYTES, LARGEST_PLACE_BYTES
from tracekit.schema import SECTOR_BYTES

WHATS = {"time": "time", "offset": "place", "length": "length"}
SAMPLED = 1 << 14
TAIL_PERCENT = 5
"""On either side of the sample: so many may be strays."""
FAR = 10
"""A time is doubted so many times the span of the others before or behind them."""
VERY_FAR = 1000
LONG_S = 365 * 86_400
"""No trace pauses for a year, and for a thousand times as long as it lasts."""
KEPT = 5
FEW_RATIO = 0.001
MOSTLY = 0.5

Range = tuple[int, int]


@dataclass(frozen=True)
class Bounds:
    """The least and the largest number of each column that a good line has, as they are stored."""

    ranges: Mapping[str, Range]

    def outside(self, columns: Columns) -> NDArray[Any]:
        """Return the rows with a number beyond its range."""
        is_outside = np.zeros(columns.rows, np.bool_)
        for name, (least, most) in self.ranges.items():
            values = columns.numbers.get(name)
            if values is not None and (values.min() < least or values.max() > most):
                is_outside |= (values < least) | (values > most)
        return np.flatnonzero(is_outside)

    def reason(self, columns: Columns, row: int) -> str:
        """Say in words which number of a row is beyond its range."""
        for name, (least, most) in self.ranges.items():
            if name in columns.numbers and not least <= columns.numbers[name][row] <= most:
                value = int(columns.numbers[name][row].view(np.uint64))
                return f"a {WHATS[name]} of {value} is too {'large' if value > most else 'small'}"
        return ""

    def told(self) -> str:
        """Return the ranges in words."""
        return ", ".join(
            f"{WHATS[name]} {least} to {most}" for name, (least, most) in self.ranges.items()
        )


@dataclass(frozen=True)
class Stray:
    """A number far from the others, and the line or record that has it."""

    what: str
    value: int
    shown: str


class Sample:
    """Up to twice SAMPLED of the values, evenly over as many as come."""

    def __init__(self) -> None:
        self._step, self._skip = 1, 0
        self._kept = np.empty(0, np.int64)

    def add(self, values: NDArray[Any]) -> None:
        """Take every so many-th of the values."""
        self._kept = np.concatenate((self._kept, values[self._skip :: self._step]))
        self._skip = (self._skip - len(values)) % self._step
        while len(self._kept) > 2 * SAMPLED:
            self._kept, self._step = self._kept[::2], 2 * self._step

    def middle(self) -> Range:
        """Return the quantiles between which nearly all values lie."""
        ends = [TAIL_PERCENT, 100 - TAIL_PERCENT]
        low, high = np.percentile(self._kept, ends, method="nearest")
        return int(low), int(high)

    def cannot_be_bytes(self, most: int) -> bool:
        """Say whether most values up to `most` are no multiples of a sector's bytes."""
        usual = self._kept[self._kept <= most]
        return len(usual) > 0 and bool(np.mean(usual % SECTOR_BYTES != 0) > MOSTLY)


@dataclass
class Strays:
    """What is seen of the columns while a trace is read."""

    units: Units
    is_scaled: bool
    """Times are nanoseconds already."""
    samples: dict[str, Sample] = field(default_factory=lambda: {name: Sample() for name in WHATS})
    noted: list[Stray] = field(default_factory=list)
    count: int = 0
    """Of numbers that were noted as far from the others, or would have been."""
    requests: int = 0
    extremes: dict[str, Range] = field(default_factory=dict)
    usual: dict[str, Range] = field(default_factory=dict)

    def see(self, columns: Columns) -> None:
        """Sample the columns, and note lines whose numbers lie far from the others."""
        self.requests += columns.rows
        for name in WHATS:
            if name in columns.numbers and columns.rows:
                self._see(name, columns.numbers[name], columns)

    def _see(self, name: str, values: NDArray[Any], columns: Columns) -> None:
        self.samples[name].add(values)
        low, high = int(values.min()), int(values.max())
        before = self.extremes.get(name, (low, high))
        self.extremes[name] = (min(low, before[0]), max(high, before[1]))
        least, most = self.usual.get(name, (1, 0))
        if low >= least and high <= most:
            return
        self.usual[name] = least, most = self._range(name, FAR, 0)
        rows = np.flatnonzero((values < least) | (values > most))
        self.count += len(rows)
        self.noted = [stray for stray in self.noted if self._is_far(stray)]
        room = max(KEPT - len(self.noted), 0)
        shown_rows = rows[:room].tolist()
        for row, shown in zip(shown_rows, columns.shown(shown_rows), strict=True):
            self.noted.append(Stray(name, int(values[row]), shown))

    def _is_far(self, stray: Stray) -> bool:
        least, most = self.usual[stray.what]
        return not least <= stray.value <= most

    def _range(self, name: str, spans: int, least_s: int) -> Range:
        """Return what numbers of the column are usual: times by spans of the others around them."""
        if name == "length":
            return 0, LARGEST_LENGTH_BYTES // SIZE_BYTES[self.units.length]
        if name == "offset":
            return 0, LARGEST_PLACE_BYTES // SIZE_BYTES[self.units.offset]
        unit_ns = 1 if self.is_scaled else TIME_NS[self.units.time]
        low, high = self.samples["time"].middle()
        margin = max(spans * max(high - low, 1), least_s * 1_000_000_000 // unit_ns)
        least, most = low - margin, high + margin
        if self.units.is_wall:
            shift = FILETIME_OF_1970 if self.units.time == "filetime" else 0
            first, last = (second * 1_000_000_000 // unit_ns + shift for second in EPOCH_S)
            least, most = max(least, first), min(most, last)
        return least, most

    def bounds(self, *, is_contradicted: bool) -> Bounds | None:
        """Return what good lines lie within, where no unit explains a number beyond that.

        None when there is no such number, or when another unit might explain one. Unless
        something contradicts the units, only times that no trace can have lie beyond.
        """
        found = {}
        for name, (low, high) in self.extremes.items():
            least, most = self._range(name, VERY_FAR, 0 if is_contradicted else LONG_S)
            if least <= low and high <= most:
                continue
            if not self._is_certain(name, (least, most)):
                return None
            found[name] = (least, most)
        return Bounds(found) if found else None

    def _is_certain(self, name: str, usual: Range) -> bool:
        """Say whether numbers beyond the range are wrong in whatever unit."""
        if name == "time":
            low, high = self.samples[name].middle()
            return usual[0] <= low and high <= usual[1]
        unit = self.units.length if name == "length" else self.units.offset
        is_sure = unit == "sectors" and self.samples[name].cannot_be_bytes(usual[1])
        return unit == "bytes" or is_sure

    def shown(self) -> str:
        """Return the lines that are far from the others, for a message."""
        found = [stray for stray in self.noted if self._is_far(stray)]
        return "".join(f"\n  {stray.shown}" for stray in found)

    def doubts(self) -> list[str]:
        """Return in words that some times lie far from the others, if few do."""
        found = [stray for stray in self.noted if stray.what == "time" and self._is_far(stray)]
        if not found or self.count > max(KEPT, FEW_RATIO * self.requests):
            return []
        lines = "; ".join(stray.shown for stray in found)
        return [f"times more than {FAR} times the others' span away from them: {lines}"]
