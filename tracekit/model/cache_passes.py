"""One pass over the requests: stack distances of all pages, or of a sample of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from tracekit._native.caches import ROLE_COUNT, RUN, SHARDS_SCALE, Curve, PageRuns, Shards
from tracekit.errors import UsageError
from tracekit.model.miss_ratio_curve import Accesses, HitCounts, Pages, exact_hits, sampled_hits
from tracekit.tables import ROLES

POINTS_PER_OCTAVE = 8
AXIS_OCTAVES = 8
EVEN_STEPS = 8
MOST_PAGES = (1 << 31) - 1
PART = 1 << 20
LEFT_OUT = 255
OnRows = Callable[[int], None] | None


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
    pairs: list[tuple[int, int, int | None]] = [
        (pcm, flash, None) for pcm in axis for flash in axis
    ]
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
    counts = np.zeros(len(pages.device_names), np.int64)
    for part in parts(runs):
        np.add.at(counts, pages.device_of(part), part["count"].astype(np.int64))
    order = [int(at) for at in np.argsort(-counts, kind="stable") if counts[at]]
    if len(order) < 2 or not most:
        return []
    groups = [[at] for at in order[:most]] + ([order[most:]] if order[most:] else [])
    # Groups are counted in the rows of roles: as many in a pass as fit, all others in the last row.
    step = ROLE_COUNT if len(groups) <= ROLE_COUNT else ROLE_COUNT - 1
    shared = []
    for first in range(0, len(groups), step):
        chosen = groups[first : first + step]
        found = _count(runs, pages, chosen, ROLE_COUNT - 1, grid, writes_allocate)
        shared += [found.row(row) for row in range(len(chosen))]
    names = [pages.device_names[at] for at in order[:most]]
    return [
        Volume(
            name,
            len(members),
            together,
            _count(runs, pages, [members], LEFT_OUT, grid, writes_allocate).row(0),
        )
        for name, members, together in zip_longest(names, groups, shared)
    ]


def _count(
    runs: NDArray[np.void],
    pages: Pages,
    groups: list[list[int]],
    other: int,
    grid: Grid,
    writes_allocate: bool,
) -> HitCounts:
    """Count each group of devices in a row, and devices of no group in the row `other`."""
    row_of = np.full(len(pages.device_names), other, np.uint8)
    for row, members in enumerate(groups):
        row_of[members] = row

    def numbered() -> Iterator[NDArray[np.void]]:
        for part in parts(runs):
            rows = row_of[pages.device_of(part)]
            chosen = part[rows != LEFT_OUT]
            chosen["role"] = rows[rows != LEFT_OUT]
            yield chosen

    return _curve(numbered(), len(pages.keys), grid, writes_allocate)


@dataclass(frozen=True)
class Passed:
    """Counts of one pass, and its `runs` for the simulations; a sample has a miniature instead."""

    shared: HitCounts
    alone: dict[str, HitCounts]  # by role, in a cache that it has for itself
    runs: NDArray[np.void]
    page_count: int
    impossible: int
    volumes: list[Volume] = field(default_factory=list)  # empty for a sample or one device
    sampled_devices: int = 0


def exact_pass(
    accesses: Accesses, pages: Pages, *, grid: Grid, writes_allocate: bool, on_rows: OnRows
) -> Passed:
    """Count every reference."""
    count = len(pages.keys)
    found = [np.empty(0, np.dtype(RUN))]
    with PageRuns(pages.keys) as ranks:
        found += [ranks.find(rows) for rows in accesses.read(on_rows)]
    runs = np.concatenate(found)
    del found
    shared = _curve(parts(runs), count, grid, writes_allocate)
    roles = np.flatnonzero(shared.references.reshape(-1, 2).sum(axis=1)).tolist()
    alone = {
        ROLES[role]: _curve(
            (part[part["role"] == role] for part in parts(runs)), count, grid, writes_allocate
        )
        for role in (roles if len(roles) > 1 else [])
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
    accesses: Accesses, grid: Grid, *, rate: float, page_limit: int, on_rows: OnRows
) -> Passed:
    """Count a sample: from `rate` on, of at most `page_limit` pages if that is not 0."""
    threshold = max(1, round(rate * SHARDS_SCALE))
    with Shards(grid.sizes, threshold=threshold, page_limit=page_limit) as shards:
        for rows in accesses.read(on_rows):
            shards.add(rows)
        shared = sampled_hits(shards, grid.sizes)
    nothing = np.empty(0, np.dtype(RUN))
    devices = len(accesses.device_names)
    return Passed(shared, {}, nothing, 0, accesses.impossible, sampled_devices=devices)
