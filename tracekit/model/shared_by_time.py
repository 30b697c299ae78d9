"""An NVM that volumes share by time: who gets how much in which window, and what moving costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit.arrow import Integers
from tracekit.model.shared_nvm import Division, Tenant, divide
from tracekit.units import HOUR_NS

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Load:
    """A volume whose load changes: what capacities save of it in all, and its share by window."""

    tenant: Tenant
    shares: Floats
    """Of its I/O time, by window; they add up to 1, or all are 0."""
    moving_s_a_byte: float
    """I/O time of bringing a byte to NVM, and of taking one away."""


@dataclass(frozen=True)
class Schedule:
    """Which capacity each volume has in each window, and what that saves, in seconds in all."""

    sizes: Integers
    """Of windows by volumes, in bytes."""
    divided_s: float
    """What one division for all the time saves."""
    saved_s: float
    """What the schedule saves, without what moving takes."""
    moving_s: float
    moved_bytes: int
    """Brought to NVM after the first window."""
    bound_s: float
    """No schedule saves more, even if moving took no time."""


def share_by_time(loads: Sequence[Load], capacity_bytes: int) -> Schedule:
    """Divide an NVM anew between windows where that saves more than moving costs.

    With a capacity a volume saves the same part of its load in every window, as its curve says of
    the whole trace. Candidates are the best divisions for all the time and for its halves, quarters
    and so on down to single windows; of these the best sequence is found by dynamic programming,
    moving counted. One division for all the time is such a sequence, so none saves less. The bound
    adds those of `divide` for each window.
    """
    shares = np.array([one.shares for one in loads])
    windows = shares.shape[1]
    found = [
        (begin, end, divide(_scaled(loads, shares[:, begin:end].sum(axis=1)), capacity_bytes))
        for begin, end in _intervals(windows)
    ]
    sizes = np.array([_sizes(division) for _, _, division in found])
    saved = np.array([_saved(loads, one) for one in sizes])
    costs = np.array([one.moving_s_a_byte for one in loads])
    values = shares.T @ saved.T
    moves = np.array([(np.abs(sizes - one) * costs).sum(axis=1) for one in sizes])
    path = _best_path(values, moves)
    bounds = {begin: one.bound_s_an_hour for begin, end, one in found if end == begin + 1}
    chosen = sizes[path]
    return Schedule(
        sizes=chosen,
        divided_s=float(values[:, 0].sum()),
        saved_s=float(values[np.arange(windows), path].sum()),
        moving_s=float(moves[path[:-1], path[1:]].sum()),
        moved_bytes=int(np.maximum(np.diff(chosen, axis=0), 0).sum()),
        bound_s=sum(bounds.values()),
    )


def _intervals(windows: int) -> Iterator[tuple[int, int]]:
    """Yield all the time, its halves, and so on; each single window once."""
    due = [(0, windows)]
    while due:
        begin, end = due.pop(0)
        yield begin, end
        if end - begin > 1:
            middle = (begin + end) // 2
            due += [(begin, middle), (middle, end)]


def _scaled(loads: Sequence[Load], parts: Floats) -> list[Tenant]:
    """Return the volumes as they are in a part of the time, which stands for an hour."""
    return [
        Tenant(
            load.tenant.trace,
            round(load.tenant.base_ns * part),
            HOUR_NS,
            tuple((size, round(saved_ns * part)) for size, saved_ns in load.tenant.points),
        )
        for load, part in zip(loads, parts.tolist(), strict=True)
    ]


def _sizes(found: Division) -> list[int]:
    return [one.capacity_bytes for one in found.shares]


def _saved(loads: Sequence[Load], sizes: Integers) -> list[float]:
    """Return the seconds that each volume saves in all with its capacity."""
    saved = []
    for load, size in zip(loads, sizes.tolist(), strict=True):
        curve = load.tenant.curve()
        at = int(np.searchsorted(curve.sizes, size, side="right")) - 1
        saved.append(float(curve.saved[at]) * load.tenant.duration_ns / HOUR_NS)
    return saved


def _best_path(values: Floats, moves: Floats) -> Integers:
    """Return which division each window has, so that values less moves are the most in all."""
    best, origins = values[0], []
    for row in values[1:]:
        reached = best[:, None] - moves
        origins.append(reached.argmax(axis=0))
        best = row + reached.max(axis=0)
    path = [int(best.argmax())]
    for origin in reversed(origins):
        path.append(int(origin[path[-1]]))
    return np.array(path[::-1], np.int64)
