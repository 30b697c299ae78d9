"""One pass over the requests: stack distances of all pages, or of a sample of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracekit._native.caches import ROLE_COUNT, RUN, SHARDS_SCALE, Curve, PageRuns, Shards
from tracekit.arrow import Integers
from tracekit.errors import UsageError
from tracekit.model.miss_ratio_curve import Accesses, HitCounts, Pages, exact_hits, sampled_hits
from tracekit.tables import ROLES

POINTS_PER_OCTAVE = 8
AXIS_OCTAVES = 8
EVEN_STEPS = 8
MOST_PAGES = (1 << 31) - 1
PART = 1 << 20
OnRows = Callable[[int], None]


@dataclass(frozen=True)
class Grid:
    """Sizes in pages; `pairs` are PCM, flash and, on a line of equal cost, what all flash has."""

    sizes: NDArray[np.uint64]  # of the curves and all sums of pairs, ascending from 1
    curve: list[int]  # of the curves, from 0
    axis: list[int]  # of the policies and the plane, from 0
    pairs: list[tuple[int, int, int | None]]
    pair_count: int  # of different pairs, with those of the other price ratios


def make_grid(
    footprint: int, sizes_bytes: tuple[int, ...], *, page_bytes: int, price_ratios: Sequence[float]
) -> Grid:
    """Return an eighth of an octave a step up to the footprint, octaves for the plane.

    Sizes that a user chose take the place of the octaves; they are rounded down to pages.
    The first price ratio has its pairs in the plane; the sizes serve the pairs of all.
    """
    chosen = sorted({size // page_bytes for size in sizes_bytes})
    if chosen and chosen[-1] > MOST_PAGES:
        raise UsageError(f"--sizes: {max(sizes_bytes)} bytes are more than {MOST_PAGES} pages")
    octaves = [footprint >> shift for shift in range(AXIS_OCTAVES, -1, -1)]
    axis = sorted({0, *(chosen or octaves)})
    largest = max(footprint, axis[-1])
    steps = int(np.log2(largest) * POINTS_PER_OCTAVE) + 1
    curve = {0, footprint, *axis, *(int(2 ** (step / POINTS_PER_OCTAVE)) for step in range(steps))}
    pairs: list[tuple[int, int, int | None]] = []
    pairs += [(pcm, flash, None) for pcm in axis for flash in axis]
    for budget in axis[1:]:
        pairs += [(*pair, budget) for pair in even_pairs(budget, price_ratios[0])]
    needed = [(pcm, flash) for pcm, flash, _ in pairs]
    needed += [pair for ratio in price_ratios for at in axis[1:] for pair in even_pairs(at, ratio)]
    sizes = curve | {pcm for pcm, _ in needed} | {pcm + flash for pcm, flash in needed}
    wanted = np.array(sorted(sizes - {0}), np.uint64)
    return Grid(wanted, sorted(curve), axis, pairs, len(set(needed)))


def even_pairs(flash_pages: int, price_ratio: float) -> list[tuple[int, int]]:
    """Return pairs of PCM and flash that cost what this much flash costs: all flash to all PCM."""
    spent = [flash_pages * step // EVEN_STEPS for step in range(EVEN_STEPS + 1)]
    pairs = [(int(pages / price_ratio), flash_pages - pages) for pages in spent]
    return list(dict.fromkeys(pairs))


@dataclass(frozen=True)
class Volume:
    """A device, or several that have no name; the counts have two rows: reads and writes."""

    name: str | None
    devices: int
    shared: HitCounts  # of its references, in a cache that all devices share
    alone: HitCounts  # in a cache that it has for itself


def volume_curves(
    runs: NDArray[np.void], pages: Pages, *, grid: Grid, writes_allocate: bool, most: int
) -> list[Volume]:
    """Return curves of the `most` devices with most references, most first, then of the others.

    Empty for a trace of one device, and where no device may be named (`most` is 0).
    """
    counts = _references(runs, pages)
    order = [int(at) for at in np.argsort(-counts, kind="stable") if counts[at]]
    if len(order) < 2 or not most:
        return []
    groups = [[at] for at in order[:most]] + ([order[most:]] if order[most:] else [])
    group_of = np.zeros(len(counts), np.uint8)
    for group, members in enumerate(groups):
        group_of[members] = group
    counter = _Counter(runs, pages, group_of, grid, writes_allocate)
    shared = counter.shared(len(groups))
    return [
        Volume(
            pages.device_names[members[0]] if group < most else None,
            len(members),
            shared[group],
            counter.alone(group),
        )
        for group, members in enumerate(groups)
    ]


def _references(runs: NDArray[np.void], pages: Pages) -> Integers:
    counts = np.zeros(len(pages.device_names), np.int64)
    for part in parts(runs):
        np.add.at(counts, pages.device_of(part), part["count"].astype(np.int64))
    return counts


@dataclass(frozen=True)
class _Counter:
    """Counts groups of devices in the rows that are otherwise for roles."""

    runs: NDArray[np.void]
    pages: Pages
    group_of: NDArray[np.uint8]  # of each device
    grid: Grid
    writes_allocate: bool

    def shared(self, groups: int) -> list[HitCounts]:
        """Return the counts of each group in one cache for all: a pass for as many as fit."""
        if groups <= ROLE_COUNT:
            return self._pass_over(0, groups)
        # The last row is for the groups whose turn it is not.
        step = ROLE_COUNT - 1
        return [
            found
            for first in range(0, groups, step)
            for found in self._pass_over(first, min(step, groups - first))
        ]

    def alone(self, group: int) -> HitCounts:
        """Return the counts of a group that has a cache for itself."""
        chosen = (part[found == group] for part, found in self._parts())
        return _rows(self._count(_numbered(part, 0) for part in chosen), 0)

    def _pass_over(self, first: int, count: int) -> list[HitCounts]:
        def row(found: NDArray[np.uint8]) -> NDArray[np.uint8]:
            is_now = (found >= first) & (found < first + count)
            return np.where(is_now, found - first, ROLE_COUNT - 1).astype(np.uint8)

        counts = self._count(_numbered(part, row(found)) for part, found in self._parts())
        return [_rows(counts, row) for row in range(count)]

    def _parts(self) -> Iterator[tuple[NDArray[np.void], NDArray[np.uint8]]]:
        for part in parts(self.runs):
            yield part, self.group_of[self.pages.device_of(part)]

    def _count(self, runs: Iterator[NDArray[np.void]]) -> HitCounts:
        return _curve(runs, len(self.pages.keys), self.grid, self.writes_allocate)


def _numbered(runs: NDArray[np.void], row: NDArray[np.uint8] | int) -> NDArray[np.void]:
    numbered = runs.copy()
    numbered["role"] = row
    return numbered


def _rows(counts: HitCounts, row: int) -> HitCounts:
    chosen = slice(2 * row, 2 * row + 2)
    return HitCounts(
        counts.sizes, counts.references[chosen], counts.hits[chosen], counts.cold[chosen]
    )


@dataclass(frozen=True)
class Passed:
    """Counts of one pass, and its `runs` for the simulations; a sample has no runs."""

    shared: HitCounts
    alone: dict[str, HitCounts]  # by role, in a cache that it has for itself
    runs: NDArray[np.void]
    page_count: int
    impossible: int
    volumes: list[Volume] = field(default_factory=list)  # empty for a sample or one device
    sampled_devices: int = 0


def exact_pass(
    requests: Path,
    pages: Pages,
    *,
    grid: Grid,
    page_bytes: int,
    writes_allocate: bool,
    on_rows: OnRows | None = None,
) -> Passed:
    """Count every reference."""
    accesses = Accesses(requests, page_bytes, pages.device_names, pages.first_keys)
    count = len(pages.keys)
    found = [np.empty(0, np.dtype(RUN))]
    with PageRuns(pages.keys) as ranks:
        found += [ranks.find(rows) for rows in accesses.read(on_rows)]
    runs = np.concatenate(found)
    del found
    shared = _curve(parts(runs), count, grid, writes_allocate)
    roles = [index for index in range(len(ROLES)) if shared.references[2 * index :][:2].sum()]
    alone = {
        ROLES[role]: _curve(
            (part[part["role"] == role] for part in parts(runs)), count, grid, writes_allocate
        )
        for role in roles
        if len(roles) > 1
    }
    return Passed(shared, alone, runs, count, accesses.impossible)


def parts(runs: NDArray[np.void]) -> Iterator[NDArray[np.void]]:
    """Yield the runs a million at a time, so that a simulation can be interrupted."""
    for first in range(0, len(runs), PART):
        yield runs[first : first + PART]


def _curve(
    runs: Iterator[NDArray[np.void]], count: int, grid: Grid, writes_allocate: bool
) -> HitCounts:
    with Curve(count, grid.sizes, writes_allocate=writes_allocate) as curve:
        for part in runs:
            curve.add(part)
        return exact_hits(curve.read(), grid.sizes)


def sampled_pass(
    requests: Path,
    grid: Grid,
    *,
    page_bytes: int,
    rate: float,
    page_limit: int,
    on_rows: OnRows | None = None,
) -> Passed:
    """Count a sample: from `rate` on, of at most `page_limit` pages if that is not 0."""
    accesses = Accesses(requests, page_bytes)
    threshold = max(1, round(rate * SHARDS_SCALE))
    with Shards(grid.sizes, threshold=threshold, page_limit=page_limit) as shards:
        for rows in accesses.read(on_rows):
            shards.add(rows)
        shared = sampled_hits(shards, grid.sizes)
    nothing = np.empty(0, np.dtype(RUN))
    devices = len(accesses.device_names)
    return Passed(shared, {}, nothing, 0, accesses.impossible, sampled_devices=devices)
