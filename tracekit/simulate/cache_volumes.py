"""Miss ratio curves by volume: the devices with the most references, and all others together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.native.curves import Curve
from tracekit.native.handle import ROLE_COUNT
from tracekit.simulate.cache_grid import Grid
from tracekit.simulate.hit_counts import HitCounts, exact_hits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

PART = 1 << 20
UNNAMED = ROLE_COUNT - 1


@dataclass(frozen=True)
class Volume:
    """A device, or several that have no name; the counts have two rows: reads and writes."""

    name: str | None
    devices: int
    shared: HitCounts  # of its references, in a cache that all devices share
    own: HitCounts  # in a cache of its own


@dataclass(frozen=True)
class Devices:
    """The devices of the blocks: names, and the rank of the first page of each, ascending."""

    names: Sequence[str]
    first_ranks: NDArray[np.int64]

    def of(self, runs: NDArray[np.void]) -> NDArray[np.int64]:
        """Return the index of the device of each run."""
        import numpy as np

        found: NDArray[np.int64] = np.searchsorted(self.first_ranks, runs["first"], "right") - 1
        return found


def volume_curves(
    runs: NDArray[np.void],
    devices: Devices,
    *,
    page_count: int,
    grid: Grid,
    writes_allocate: bool,
    most: int,
) -> list[Volume]:
    """Return curves of the `most` devices with most references, most first, then of the others.

    A trace of one device has none, nor has one of which no device may be named (`most` is 0).
    """
    import numpy as np

    counts = _references(runs, devices)
    order = [int(at) for at in np.argsort(-counts, kind="stable") if counts[at]]
    if len(order) < 2 or not most:
        return []
    groups = [[at] for at in order[:most]] + ([order[most:]] if order[most:] else [])
    group_of = np.zeros(len(counts), np.uint8)
    for group, members in enumerate(groups):
        group_of[members] = group
    counter = _Counter(runs, devices, group_of, page_count, grid, writes_allocate)
    shared = counter.shared(len(groups))
    return [
        Volume(
            devices.names[members[0]] if group < most else None,
            len(members),
            shared[group],
            counter.own(group),
        )
        for group, members in enumerate(groups)
    ]


def _references(runs: NDArray[np.void], devices: Devices) -> NDArray[np.int64]:
    import numpy as np

    counts = np.zeros(len(devices.names), np.int64)
    for first in range(0, len(runs), PART):
        part = runs[first : first + PART]
        np.add.at(counts, devices.of(part), part["count"].astype(np.int64))
    return counts


@dataclass(frozen=True)
class _Counter:
    """Counts groups of devices in the rows that are otherwise for roles."""

    runs: NDArray[np.void]
    devices: Devices
    group_of: NDArray[np.uint8]  # of each device
    page_count: int
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

    def own(self, group: int) -> HitCounts:
        """Return the counts of a group that has a cache for itself."""
        chosen = (part[found == group] for part, found in self._parts())
        return _rows(self._count(_numbered(part, 0) for part in chosen), 0)

    def _pass_over(self, first: int, count: int) -> list[HitCounts]:
        import numpy as np

        def row(found: NDArray[np.uint8]) -> NDArray[np.uint8]:
            is_now = (found >= first) & (found < first + count)
            return np.where(is_now, found - first, UNNAMED).astype(np.uint8)

        counts = self._count(_numbered(part, row(found)) for part, found in self._parts())
        return [_rows(counts, row) for row in range(count)]

    def _parts(self) -> Iterator[tuple[NDArray[np.void], NDArray[np.uint8]]]:
        for first in range(0, len(self.runs), PART):
            part = self.runs[first : first + PART]
            yield part, self.group_of[self.devices.of(part)]

    def _count(self, parts: Iterator[NDArray[np.void]]) -> HitCounts:
        with Curve(self.page_count, self.grid.sizes, writes_allocate=self.writes_allocate) as curve:
            for part in parts:
                curve.add(part)
            return exact_hits(curve.read(), self.grid.sizes)


def _numbered(runs: NDArray[np.void], row: NDArray[np.uint8] | int) -> NDArray[np.void]:
    numbered = runs.copy()
    numbered["role"] = row
    return numbered


def _rows(counts: HitCounts, row: int) -> HitCounts:
    chosen = slice(2 * row, 2 * row + 2)
    return HitCounts(
        counts.sizes, counts.references[chosen], counts.hits[chosen], counts.cold[chosen]
    )
