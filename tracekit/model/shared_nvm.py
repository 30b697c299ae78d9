"""Several traces share one NVM: which of them gets how much, by what more of it would save."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit.arrow import Integers
from tracekit.metadata import Record

Floats = NDArray[np.float64]
MOST_EXACT = 8
"""Traces whose divisions are all compared; of more, steps are taken by what a byte saves."""
LARGEST_STATES = 200_000
"""Divisions that are kept of the traces so far; beyond that only one for each part of the NVM."""


class Curve(NamedTuple):
    """Rising capacities from 0, and the seconds that each saves in an hour of the trace."""

    sizes: Integers
    saved: Floats


@dataclass(frozen=True)
class Tenant:
    """A trace: its time on the base device, and the time saved at some capacities."""

    trace: str
    base_ns: int
    duration_ns: int
    points: tuple[tuple[int, int], ...]
    """Capacity in bytes and ns saved; what is between two saves as much as the smaller one."""

    def curve(self) -> Curve:
        """Return rising capacities from 0 with the seconds saved in an hour of the trace."""
        best: dict[int, int] = {0: 0}
        for size, saved in sorted(self.points):
            if saved > max(best.values()):
                best[size] = saved
        saved_ns = np.array(list(best.values()), float)
        return Curve(np.array(list(best), np.int64), saved_ns / self.duration_ns * 3600)


class Share(Record):
    """What one trace gets of a shared NVM."""

    trace: str
    capacity_bytes: int
    saved_ratio: float
    """Of the trace's own time on the base device."""
    saved_s_an_hour: float
    step_bytes: int
    """More NVM to the next point of its curve; 0: there is none that saves more."""
    marginal_ratio: float
    """What that would save, of its time."""


class Step(NamedTuple):
    """From one point of a trace's concave envelope to the next."""

    trace: int
    before: int
    after: int
    size: int
    saved: float


@dataclass(frozen=True)
class Division:
    """Who gets how much of a shared NVM, and what no division saves more than."""

    shares: list[Share]
    bound_s_an_hour: float
    is_exact: bool

    @property
    def saved_s_an_hour(self) -> float:
        """What all save together."""
        return sum(one.saved_s_an_hour for one in self.shares)


def divide(tenants: Sequence[Tenant], capacity_bytes: int) -> Division:
    """Divide a capacity between few traces exactly, between many by marginal gain; with a bound.

    Each trace takes one point of its curve: a multiple-choice knapsack problem. The bound is that
    of its linear relaxation (Sinha & Zoltners 1979): steps of the concave envelopes are taken in
    the order of what they save for a byte, and of the first that does not fit a part. Many traces
    take these steps, too, each whole or not at all, and then the points that still fit.
    """
    curves = [tenant.curve() for tenant in tenants]
    steps = sorted(_steps(curves), key=lambda step: -step.saved / step.size)
    bound, left = 0.0, capacity_bytes
    for step in steps:
        bound += step.saved * min(1.0, left / step.size)
        left -= min(step.size, left)
    if len(tenants) <= MOST_EXACT:
        return Division(share_nvm(tenants, capacity_bytes), bound, is_exact=True)
    points = _greedy_points(curves, steps, capacity_bytes)
    shares = [_share(*one) for one in zip(tenants, curves, points, strict=True)]
    return Division(shares, bound, is_exact=False)


def _steps(curves: Sequence[Curve]) -> Iterator[Step]:
    """Yield the steps of the least concave curve above each one."""
    for trace, (sizes, saved) in enumerate(curves):
        hull: list[int] = []
        for point in range(len(sizes)):
            while len(hull) > 1 and _slope(sizes, saved, *hull[-2:]) <= _slope(
                sizes, saved, hull[-1], point
            ):
                hull.pop()
            hull.append(point)
        for one, other in pairwise(hull):
            size, more = int(sizes[other] - sizes[one]), float(saved[other] - saved[one])
            yield Step(trace, one, other, size, more)


def _slope(sizes: Integers, saved: Floats, one: int, other: int) -> float:
    return float((saved[other] - saved[one]) / (sizes[other] - sizes[one]))


def _greedy_points(curves: Sequence[Curve], steps: Sequence[Step], capacity: int) -> list[int]:
    """Return a point of each curve: whole steps in their order, then what else fits."""
    points, left = [0] * len(curves), capacity
    for step in steps:
        if points[step.trace] == step.before and step.size <= left:
            points[step.trace] = step.after
            left -= step.size
    while True:
        found = []
        for trace, (sizes, saved) in enumerate(curves):
            at = points[trace]
            point = int(np.searchsorted(sizes, int(sizes[at]) + left, side="right")) - 1
            if point > at:
                found.append((float(saved[point] - saved[at]), trace, point))
        if not found:
            return points
        _, trace, point = max(found)
        left -= int(curves[trace].sizes[point] - curves[trace].sizes[points[trace]])
        points[trace] = point


def share_nvm(tenants: Sequence[Tenant], capacity_bytes: int) -> list[Share]:
    """Divide a capacity so that the time saved by all is as long as possible.

    A curve need not be concave: half of a journal saves little. So every division of the traces so
    far is kept that no other one beats in size and in saving, which is exact.
    """
    curves = [tenant.curve() for tenant in tenants]
    sizes, saved = np.zeros(1, np.int64), np.zeros(1)
    steps: list[tuple[Integers, Integers]] = []
    for own_sizes, own_saved in curves:
        all_sizes = (sizes[:, None] + own_sizes).ravel()
        all_saved = (saved[:, None] + own_saved).ravel()
        kept = _unbeaten(all_sizes, all_saved, capacity_bytes)
        steps.append((kept // len(own_sizes), kept % len(own_sizes)))
        sizes, saved = all_sizes[kept], all_saved[kept]
    state, chosen = len(sizes) - 1, []
    for before, point in reversed(steps):
        chosen.append(int(point[state]))
        state = int(before[state])
    return [
        _share(tenant, curve, point)
        for tenant, curve, point in zip(tenants, curves, reversed(chosen), strict=True)
    ]


def _unbeaten(sizes: Integers, saved: Floats, capacity_bytes: int) -> Integers:
    """Return the places of divisions that fit and save more than every smaller one, by size."""
    order = np.lexsort((-saved, sizes))
    order = order[sizes[order] <= capacity_bytes]
    best = np.maximum.accumulate(saved[order])
    kept: Integers = order[np.append(True, best[1:] > best[:-1])]
    if len(kept) > LARGEST_STATES:
        # The last of each part is its best one; the very last is the best of all.
        parts = (sizes[kept].astype(np.float64) / max(capacity_bytes, 1) * LARGEST_STATES).astype(
            np.int64
        )
        kept = kept[np.append(parts[1:] > parts[:-1], True)]
    return kept


def _share(tenant: Tenant, curve: Curve, point: int) -> Share:
    sizes, saved = curve
    whole_s = tenant.base_ns / tenant.duration_ns * 3600
    step, more = 0, 0.0
    if point + 1 < len(sizes):
        step = int(sizes[point + 1] - sizes[point])
        more = float(saved[point + 1] - saved[point]) / whole_s
    return Share(
        trace=tenant.trace,
        capacity_bytes=int(sizes[point]),
        saved_ratio=float(saved[point]) / whole_s if whole_s else 0.0,
        saved_s_an_hour=float(saved[point]),
        step_bytes=step,
        marginal_ratio=more,
    )
