"""Numbers far from all others of a foreign trace: wrong lines, whatever their unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.errors import InputError
from tracekit.formats import FILETIME_OF_1970
from tracekit.readers.hypotheses import (
    EPOCH_S,
    LARGEST_LENGTH_BYTES,
    LARGEST_PLACE_BYTES,
    MOSTLY,
)
from tracekit.readers.units import TIME_NS, Columns, Units, show_example
from tracekit.units import SECTOR_BYTES, counted

WHATS = {"time": "time", "offset": "place", "length": "length"}
SAMPLED = 1 << 14
TAIL_PERCENT = 5
"""On either side of the sample: so many may be outliers."""
FAR = 10
"""A time is doubted so many times the span of the others before or behind them."""
VERY_FAR = 1000
LONG_S = 365 * 86_400
"""No trace pauses for a year, and for a thousand times as long as it lasts."""
KEPT = 5
BEYOND = 16
"""Times nearly all others, and FLOORS: so large a place or length is shown if few are."""
FEWEST_OTHERS = 100
FLOORS = {"offset": 64 << 20, "length": 256 << 10}
"""In bytes."""
FEW_RATIO = 0.001

Range = tuple[int, int]


class OutlierError(InputError):
    """Numbers contradict the units, and no longer without the lines that lie beyond `bounds`."""

    def __init__(self, message: str, *more: str, bounds: Bounds, hint: str) -> None:
        super().__init__(message, *more, hint=hint)
        self.bounds = bounds


@dataclass(frozen=True)
class Bounds:
    """The least and the largest number of each column that a good line has, as they are stored."""

    ranges: Mapping[str, Range]

    def outside(self, columns: Columns) -> NDArray[Any]:
        """Return the rows with a number beyond its range."""
        is_outside = np.zeros(columns.rows, np.bool_)
        for name, (least, most) in self.ranges.items():
            values = columns.numbers.get(name)
            if values is None or not len(values):
                continue
            if values.min() < least or values.max() > most:
                is_outside |= (values < least) | (values > most)
        return np.flatnonzero(is_outside)

    def reason(self, columns: Columns, row: int) -> str:
        """Say in words which number of a row is beyond its range."""
        for name, (least, most) in self.ranges.items():
            if name in columns.numbers and not least <= columns.numbers[name][row] <= most:
                value = int(columns.numbers[name][row].view(np.uint64))
                return f"a {WHATS[name]} of {value} is too {'large' if value > most else 'small'}"
        return ""

    def in_words(self) -> str:
        """Return the ranges in words."""
        return ", ".join(
            f"{WHATS[name]} {least} to {most}" for name, (least, most) in self.ranges.items()
        )


@dataclass(frozen=True)
class Outlier:
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

    @property
    def values(self) -> NDArray[Any]:
        """What is kept."""
        return self._kept

    def cannot_be_bytes(self, most: int) -> bool:
        """Say whether most values up to `most` are no multiples of a sector's bytes."""
        usual = self._kept[self._kept <= most]
        return len(usual) > 0 and bool(np.mean(usual % SECTOR_BYTES != 0) > MOSTLY)


@dataclass
class Outliers:
    """What is seen of the columns while a trace is read."""

    units: Units
    is_scaled: bool
    """Times are nanoseconds already."""
    samples: dict[str, Sample] = field(default_factory=lambda: {name: Sample() for name in WHATS})
    noted: list[Outlier] = field(default_factory=list)
    count: int = 0
    """Of numbers that were noted as far from the others, or would have been."""
    requests: int = 0
    extremes: dict[str, Range] = field(default_factory=dict)
    usual: dict[str, Range] = field(default_factory=dict)
    largest: dict[str, list[Outlier]] = field(default_factory=lambda: {n: [] for n in FLOORS})
    """The largest places and lengths among those beyond nearly all others."""
    beyond: Counter[str] = field(default_factory=Counter)
    """How many there are."""
    limits: dict[str, int] = field(default_factory=dict)
    """Beyond which they were."""

    def see(self, columns: Columns) -> None:
        """Sample the columns, and note lines whose numbers lie far from the others."""
        self.requests += columns.rows
        for name in (name for name in WHATS if name in columns.numbers and columns.rows):
            values = columns.numbers[name]
            self.samples[name].add(values)
            low, high = int(values.min()), int(values.max())
            before = self.extremes.get(name, (low, high))
            self.extremes[name] = (min(low, before[0]), max(high, before[1]))
            if name in FLOORS and high > self.limits.get(name, 0):
                self._see_beyond(name, columns)
            least, most = self.usual.get(name, (1, 0))
            if low >= least and high <= most:
                continue
            self.usual[name] = least, most = self._range(name, FAR, 0)
            rows = np.flatnonzero((values < least) | (values > most))
            self.count += len(rows)
            self.noted = [outlier for outlier in self.noted if self._is_far(outlier)]
            noted = rows[: max(KEPT - len(self.noted), 0)].tolist()
            if noted and columns.block is not None:
                shown = map(show_example, columns.block.examples(noted))
                self.noted += map(Outlier, repeat(name), values[noted].tolist(), shown)

    def _is_far(self, outlier: Outlier) -> bool:
        least, most = self.usual[outlier.what]
        return not least <= outlier.value <= most

    def _range(self, name: str, spans: int, least_s: int) -> Range:
        """Return what numbers of the column are usual: times by spans of the others around them."""
        if name == "length":
            return 0, LARGEST_LENGTH_BYTES // self.units.factor("length")
        if name == "offset":
            return 0, LARGEST_PLACE_BYTES // self.units.factor("offset")
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

    def shown(self) -> list[str]:
        """Return the lines that are far from the others, for a message."""
        return [outlier.shown for outlier in self.noted if self._is_far(outlier)]

    def far_places(self) -> list[str]:
        """Return in words that some places lie far behind all others, if few do."""
        far = [one for one in self.largest["offset"] if one.value >= self._far_place()]
        if not far:
            return self._far_group()
        usual = self.samples["offset"].middle()[1]
        return [
            f"{100 - TAIL_PERCENT}% of all places are up to {usual:,}, and one is"
            f" {far[0].value:,}: {far[0].shown}"
        ]

    def notes(self) -> list[tuple[str, str]]:
        """Return how many places and lengths are far beyond nearly all others, and their lines.

        Nothing of those of which there are more than a few.
        """
        found = []
        for name, largest in self.largest.items():
            if not 0 < self.beyond[name] <= min(KEPT, self.requests // FEWEST_OTHERS):
                continue
            limit = self._limit(name)
            shown = [one for one in largest if one.value > limit]
            if shown and not (name == "offset" and self.far_places()):
                beyond = f"more than {limit:,}, {BEYOND} times nearly all others"
                lines = "; ".join(f"{one.value:,} in {one.shown}" for one in shown)
                found.append((counted(len(shown), WHATS[name]), f"{beyond}: {lines}"))
        return found

    def _limit(self, name: str) -> int:
        """Return the number that few are expected to exceed."""
        usual, least = self.samples[name].middle()[1], FLOORS[name] // self.units.factor(name)
        return BEYOND * max(usual, least)

    def _far_group(self) -> list[str]:
        """Return in words that many places, but less than half, lie far behind all others."""
        places = np.sort(self.samples["offset"].values)
        least = LARGEST_LENGTH_BYTES // self.units.factor("offset")
        gaps = places[1:] / np.maximum(places[:-1], least)
        at = int(np.argmax(gaps)) if len(gaps) else 0
        if not len(gaps) or gaps[at] < VERY_FAR or at + 1 < len(places) / 2:
            return []
        share = (len(places) - at - 1) / len(places)
        return [
            f"{share:.0%} of all places are {places[at + 1]:,} and beyond, all others up to"
            f" {places[at]:,}"
        ]

    def _far_place(self) -> int:
        """Return from where on a place is doubted, in the unit of places."""
        least = LARGEST_LENGTH_BYTES // self.units.factor("offset")
        return VERY_FAR * max(self.samples["offset"].middle()[1], least)

    def _see_beyond(self, name: str, columns: Columns) -> None:
        """Count numbers beyond nearly all others, and keep the lines of the largest."""
        values, limit = columns.numbers[name], self._limit(name)
        self.limits[name] = limit
        rows = np.flatnonzero(values > limit)
        self.beyond[name] += len(rows)
        rows = rows[np.argsort(-values[rows], kind="stable")][:KEPT].tolist()
        if rows and columns.block is not None:
            shown = map(show_example, columns.block.examples(rows))
            found = map(Outlier, repeat(name), values[rows].tolist(), shown)
            largest = sorted([*self.largest[name], *found], key=lambda one: -one.value)
            self.largest[name] = largest[:KEPT]

    def doubts(self) -> list[str]:
        """Return in words that some times lie far from the others, if few do."""
        far = [one.shown for one in self.noted if one.what == "time" and self._is_far(one)]
        if not far or self.count > max(KEPT, FEW_RATIO * self.requests):
            return []
        return [f"times more than {FAR} times the others' span away from them: {'; '.join(far)}"]
