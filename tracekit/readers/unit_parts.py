"""Parts of a trace whose numbers are those of the others times 512: another unit, bytes or sectors.

The pieces of a trace fall into two groups where their usual numbers lie far apart. The one is of
another unit if its numbers, times 512, are distributed as those of the other: lengths are the same
ones, places spread alike. Places of random requests of whole blocks are no whole blocks apart
then. What is of one length, or lies at places that may be anywhere, is a doubt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracekit.readers.units import Columns
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES

LEAST_ROWS = 64
PIECES = 64
"""Of the rows that come at once."""
SAMPLED = 64
"""Of a piece so many rows are looked at, evenly over it."""
MOST_PIECES = 256
"""More are thinned to half of them."""
FEWEST_PIECES, LEAST_SHARE = 2, 0.03
"""Of the pieces, a part has no fewer."""
APART = 16
"""Times the usual number of one group is that of the other, at least."""
NEAR, PER_ROOT = 0.1, 1.6
"""Two samples of one distribution differ less: Kolmogorov and Smirnov's limit, and somewhat."""
SPREAD = 4
"""Times the place of the first tenth is that of the last: else all are at one."""
SAME, FREQUENT = 0.8, 0.05
UNALIGNED = 0.05
"""Of places: so many may be less aligned than the others."""
WHOLE_LENGTHS, MANY_STEPS, FEW_STEPS = 0.95, 0.8, 0.35
"""Shares of whole 4 KiB; of steps between random places by sectors, 1/8 are."""
FAR_PERCENT = 90
ALIGNED_BITS = 3
LARGE_BYTES = 1 << 20
IN_STRIDE = 0.3

Numbers = Any


@dataclass(frozen=True)
class Sampled:
    """Some rows of a piece, in their order."""

    begin: str
    """Its first line or record, in words."""
    places: Numbers
    lengths: Numbers


@dataclass(frozen=True)
class Group:
    """The rows of several pieces."""

    places: Numbers
    lengths: Numbers
    steps: Numbers
    """From one place to the next of the same piece, but for 0."""

    def whole_steps(self, unit_bytes: int) -> float:
        """Return the share of steps that are whole blocks of 4 KiB."""
        return _share_of_blocks(self.steps * unit_bytes)

    def whole_lengths(self, unit_bytes: int) -> float:
        """Return the share of lengths that are whole blocks of 4 KiB."""
        return _share_of_blocks(self.lengths * unit_bytes)

    def power(self) -> int:
        """Nearly all places are multiples of two to this."""
        some = self.places[self.places > 0]
        lowest = np.sort(some & -some)
        return int(lowest[int(UNALIGNED * (len(lowest) - 1))]).bit_length() - 1 if len(some) else 0


@dataclass
class UnitParts:
    """What is seen of the pieces of a trace while it is read."""

    place_bytes: int
    """Of one unit of the column of places."""
    length_bytes: int
    _pieces: list[Sampled] = field(default_factory=list)
    _step: int = 1
    _seen: int = 0
    _judged: list[tuple[bool, str]] | None = None
    """What was concluded of the pieces, until more come."""

    def see(self, columns: Columns) -> None:
        """Keep some rows of some pieces; what has no length, as a flush, has no place either."""
        lengths, places = (columns.numbers.get(name) for name in ("length", "offset"))
        if lengths is None or places is None or columns.block is None:
            return
        self._judged = None
        size = max(LEAST_ROWS, -(-columns.rows // PIECES))
        for begin in range(0, columns.rows - LEAST_ROWS + 1, size):
            self._seen += 1
            if (self._seen - 1) % self._step:
                continue
            rows = slice(begin, begin + size, -(-size // SAMPLED))
            has_data = lengths[rows] > 0
            if np.count_nonzero(has_data) < SAMPLED // 4:
                continue
            found = places[rows][has_data], lengths[rows][has_data]
            self._pieces.append(Sampled(columns.block.about(begin), *found))
        while len(self._pieces) > MOST_PIECES:
            self._pieces, self._step = self._pieces[::2], 2 * self._step

    def found(self) -> list[str]:
        """Return in words that a part is of another unit."""
        return [text for is_sure, text in self._conclusions() if is_sure][:1]

    def doubts(self) -> list[str]:
        """Return in words that a part may be of another unit, if none is for sure."""
        texts = [text for is_sure, text in self._conclusions() if not is_sure]
        return [] if self.found() else texts[:1]

    def _conclusions(self) -> list[tuple[bool, str]]:
        if self._judged is None:
            self._judged = list(self._changes())
        return self._judged

    def _changes(self) -> Iterator[tuple[bool, str]]:
        for name in ("lengths", "places"):
            for is_high in self._splits(name):
                low, high = self._group(~is_high), self._group(is_high)
                judge = self._of_lengths if name == "lengths" else self._of_places
                for is_sure, what in judge(low, high):
                    yield is_sure, f"{what}, {self._where(is_high)}"
        yield from self._of_steps()

    def _splits(self, name: str) -> Iterator[Numbers]:
        """Yield for each gap between the usual numbers of pieces which ones lie beyond it."""
        usual = np.array([_usual(getattr(one, name)) for one in self._pieces])
        order = np.sort(usual)
        fewest = self._fewest()
        for at in range(fewest, len(usual) - fewest + 1):
            if order[at] >= APART * order[at - 1]:
                yield usual >= order[at]

    def _fewest(self) -> int:
        """Return of how many pieces a part is at least."""
        return max(FEWEST_PIECES, int(np.ceil(LEAST_SHARE * len(self._pieces))))

    def _group(self, is_in: Numbers) -> Group:
        return self._group_of(
            [one for one, is_one in zip(self._pieces, is_in, strict=True) if is_one]
        )

    def _group_of(self, pieces: Sequence[Sampled]) -> Group:
        steps = np.concatenate([np.diff(one.places) for one in pieces])
        return Group(
            np.concatenate([one.places for one in pieces]),
            np.concatenate([one.lengths for one in pieces]),
            steps[steps != 0],
        )

    def _where(self, is_high: Numbers) -> str:
        """Return where the smaller group begins, in words."""
        is_part = is_high if 2 * np.count_nonzero(is_high) <= len(is_high) else ~is_high
        return f"from about {self._pieces[int(np.argmax(is_part))].begin} on"

    def _of_lengths(self, low: Group, high: Group) -> Iterator[tuple[bool, str]]:
        both = _common(low.lengths, high.lengths)
        if both == 0 or _distance(low.lengths * SECTOR_BYTES, high.lengths) > 2 * NEAR + _noise(
            low.lengths, high.lengths
        ):
            return
        what = f"lengths of a part are those of the others times {SECTOR_BYTES}"
        if both > 1:
            yield True, what
            return
        length = int(np.median(high.lengths)) * self.length_bytes
        in_stride = np.mean(high.steps * self.place_bytes % length == 0) if len(high.steps) else 1
        is_large = length >= LARGE_BYTES and in_stride < IN_STRIDE
        if is_large or length // SECTOR_BYTES < SECTOR_BYTES:
            yield False, what

    def _of_places(self, low: Group, high: Group) -> Iterator[tuple[bool, str]]:
        bits = high.power() - low.power()
        limit = NEAR + _noise(low.places, high.places)
        ends = np.percentile(high.places, [10, 90])
        is_spread = ends[1] >= SPREAD * ends[0]
        is_like = is_spread and _distance(low.places * SECTOR_BYTES, high.places) <= limit
        if is_like and (bits >= SECTOR_BYTES.bit_length() - 2 or low.power() == 0):
            limit = NEAR + _noise(low.lengths, high.lengths)
            same = _distance(low.lengths, high.lengths) <= limit
            both = _common(low.lengths, high.lengths)
            what = f"places of a part spread as those of the others times {SECTOR_BYTES}"
            yield bits >= ALIGNED_BITS and (same or both > 1), what

    def _of_steps(self) -> Iterator[tuple[bool, str]]:
        """Yield that places of a part, and no others, are seldom whole blocks apart."""
        unit = self.place_bytes
        shares = [self._group_of([one]).whole_steps(unit) for one in self._pieces]
        is_whole = np.array([share >= MANY_STEPS for share in shares], np.bool_)
        if min(np.count_nonzero(is_whole), np.count_nonzero(~is_whole)) < self._fewest():
            return
        low, high = self._group(~is_whole), self._group(is_whole)
        far = [float(np.percentile(group.places, FAR_PERCENT)) for group in (low, high)]
        if (
            len(low.steps) >= LEAST_ROWS // 2
            and low.whole_steps(unit) <= FEW_STEPS
            and low.whole_lengths(self.length_bytes) >= WHOLE_LENGTHS
            and far[1] >= APART * far[0]
        ):
            what = "places of a part are seldom whole 4 KiB apart, and nearer than the others"
            yield False, f"{what}, {self._where(is_whole)}"


def _usual(values: Numbers) -> int:
    """Return the median, or one where it is none."""
    return max(int(np.partition(values, len(values) // 2)[len(values) // 2]), 1)


def _share_of_blocks(values: Numbers) -> float:
    return float(np.mean(values % BLOCK_BYTES == 0)) if len(values) else 1.0


def _noise(one: Numbers, other: Numbers) -> float:
    """Return how much two samples of one distribution differ by chance."""
    return PER_ROOT * float(np.sqrt(1 / len(one) + 1 / len(other)))


def _distance(one: Numbers, other: Numbers) -> float:
    """Return the largest difference of two distributions, after Kolmogorov and Smirnov: 0 to 1."""
    from scipy import stats

    return float(stats.ks_2samp(one, other, method="asymp").statistic)


def _common(low: Numbers, high: Numbers) -> int:
    """Return how many frequent lengths of one group are those of the other times 512.

    0 where others are not few.
    """
    values, counts = np.unique(high, return_counts=True)
    is_same = np.isin(values, low * SECTOR_BYTES)
    if counts[is_same].sum() < SAME * len(high):
        return 0
    return int(np.count_nonzero(counts[is_same] >= FREQUENT * len(high)))
