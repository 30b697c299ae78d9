"""One pass over the requests: stack distances of all pages, or of a sample of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.native.curves import SHARDS_SCALE, Curve, PageRuns, Shards
from tracekit.native.handle import RUN
from tracekit.schema import ROLES
from tracekit.simulate.cache_grid import Grid
from tracekit.simulate.cache_volumes import Volume
from tracekit.simulate.hit_counts import HitCounts, exact_hits, sampled_hits
from tracekit.simulate.pages import Accesses

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OnRows = Callable[[int], None]
PART = 1 << 20


@dataclass(frozen=True)
class Passed:
    """What the requests gave; `runs` are kept for what comes after, none of a sample."""

    shared: HitCounts
    own: dict[str, HitCounts]  # by role: a cache that this role has for itself
    runs: NDArray[np.void]
    page_count: int
    impossible: int
    volumes: list[Volume] = field(default_factory=list)  # none of a sample, or of one device
    sampled_devices: int = 0


def exact_pass(
    requests: Path,
    keys: tuple[list[str], NDArray[np.int64], NDArray[np.int64]],
    *,
    grid: Grid,
    page_bytes: int,
    writes_allocate: bool,
    on_rows: OnRows | None = None,
) -> Passed:
    """Count every reference; `keys` are device names, page keys and first keys of the devices."""
    import numpy as np

    names, pages, first_keys = keys
    accesses = Accesses(requests, page_bytes, names, first_keys)
    count = len(pages)
    found = [np.empty(0, np.dtype(RUN))]
    with PageRuns(pages) as ranks:
        del pages
        found += [ranks.find(rows) for rows in accesses.read(on_rows)]
    runs = np.concatenate(found)
    del found
    shared = _curve(parts(runs), count, grid, writes_allocate)
    roles = [index for index in range(len(ROLES)) if shared.references[2 * index :][:2].sum()]
    own = {
        ROLES[role]: _curve(
            (part[part["role"] == role] for part in parts(runs)), count, grid, writes_allocate
        )
        for role in roles
        if len(roles) > 1
    }
    return Passed(shared, own, runs, count, accesses.impossible)


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
    import numpy as np

    accesses = Accesses(requests, page_bytes)
    threshold = max(1, round(rate * SHARDS_SCALE))
    with Shards(grid.sizes, threshold=threshold, page_limit=page_limit) as shards:
        for rows in accesses.read(on_rows):
            shards.add(rows)
        shared = sampled_hits(shards, grid.sizes)
    nothing = np.empty(0, np.dtype(RUN))
    devices = len(accesses.device_names)
    return Passed(shared, {}, nothing, 0, accesses.impossible, sampled_devices=devices)
