"""Elapsed time against NVM capacity for each way to place the blocks of a trace (Kim & Bahn 2017).

Elapsed time is the sum of the service times of all requests, one after the other. Each device that
has some blocks of a request costs its fixed cost once and the transfer of the sectors it has.
A flush costs the base device's flush while a role is wholly there, the longer of both devices'
while it is on both, and NVM's once all its blocks are on NVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tracekit._native import placement as native
from tracekit._native.placement import PLACED_ROLES, Rows
from tracekit.arrow import Integers, ahead, flag_bytes, name_codes, numbers, read_columns
from tracekit.choices import Coverage, words
from tracekit.devices import DevicePair, base_cost, device_cost
from tracekit.model.block_orders import OrderedBlocks, TouchedBlocks, order_blocks
from tracekit.tables import OPERATIONS, ROLES, role_codes
from tracekit.units import PS_PER_NS

COVERAGES = words(Coverage)
COLUMNS = [
    "request_id", "queue_ns", "issue_ns", "merged_into", "sector", "length_bytes", "device",
    "operation", "role", "is_fua", "is_preflush",
]  # fmt: skip
NUMBERS = COLUMNS[:6]
Roles = tuple[str, ...]


@dataclass(frozen=True)
class ChargedTrace:
    """The requests of a trace, the blocks that they touch, and how both devices are charged."""

    requests: Path
    touched: TouchedBlocks
    devices: DevicePair
    is_issued: bool = False  # merged requests together and in issue order; else each as queued
    is_open: bool = False  # requests come at their traced times and queue; else one by one
    on_rows: Callable[[int], None] | None = None

    @property
    def needs_events(self) -> bool:
        """Whether a time depends on the order of requests on a device."""
        return self.is_open or self.devices.base.has_head

    def rows(self) -> Iterator[Rows]:
        """Yield the rows of requests.parquet as the kernels take them."""
        for rows in ahead(read_rows(self.requests, self.touched.device_names)):
            yield rows
            if self.on_rows is not None:
                self.on_rows(len(rows.request_id))

    def setup(self, ordered: OrderedBlocks) -> native.Setup:
        """Return what a kernel needs for blocks that move in these orders."""
        return native.Setup(
            keys=self.touched.keys,
            blocks=ordered.blocks,
            devices=self.touched.devices,
            point_count=ordered.optimal_blocks.shape[1],
            is_issued=self.is_issued,
            base=base_cost(self.devices.base),
            nvm=device_cost(self.devices.nvm),
        )


@dataclass(frozen=True)
class Splits:
    """At each capacity point: the least change of time, and the blocks given to each role."""

    change_ps: Integers
    blocks: Integers  # by role (in the order given) and point


def best_splits(points: Integers, changes: list[Integers]) -> Splits:
    """Return the best division of each capacity (blocks, ascending from 0) between the roles.

    `changes` are the roles' curves at `points`. Roles share no request, so their changes add up.
    Shares are points themselves, and capacity may stay unused where using it costs time; with two
    roles no better division into points exists, with more each further role is weighed against the
    best division of the rest, rounded down to a point. Of equal divisions the first role gets less.
    """
    if not changes:
        return Splits(np.zeros(len(points), np.int64), np.zeros((0, len(points)), np.int64))
    total, best = running_best(changes[0])
    shares = points[best][np.newaxis]
    for change in changes[1:]:
        least, best = running_best(change)
        total, before_index, index = _pair(points, total, least)
        shares = np.vstack([shares[:, before_index], points[best[index]]])
    return Splits(total, shares)


def running_best(change: Integers) -> tuple[Integers, Integers]:
    """Return the least value up to each point, and the index of the first point that has it."""
    least = np.minimum.accumulate(change)
    is_new = np.concatenate([[True], least[1:] < least[:-1]])
    index = np.maximum.accumulate(np.where(is_new, np.arange(len(change)), 0))
    return least, index


def _pair(points: Integers, first: Integers, second: Integers) -> Integers:
    """Return the best sum at each point and the indexes of both parts; both curves only fall."""
    found = []
    for index in range(len(points)):
        rest = np.searchsorted(points, points[index] - points[: index + 1], side="right") - 1
        sums = first[: index + 1] + second[rest]
        chosen = int(np.argmin(sums))
        found.append((sums[chosen], chosen, rest[chosen]))
    return np.array(found, np.int64).T


def to_ns(time_ps: Any) -> Any:
    """Round picoseconds to nanoseconds; a number or an array of them."""
    return (time_ps + PS_PER_NS // 2) // PS_PER_NS


@dataclass(frozen=True)
class Timings:
    """Times of one placement at each capacity point, in ps; the last two with queueing only."""

    service_ps: Integers  # sum over all requests
    response_ps: Integers | None = None  # mean from arrival to completion
    makespan_ps: Integers | None = None  # from the first arrival to the last completion

    @property
    def compared_ps(self) -> Integers:
        """The time that placements are compared by."""
        return self.service_ps if self.response_ps is None else self.response_ps

    def at(self, index: Integers) -> Timings:
        """Return the times at other points."""
        parts: list[Any] = [None if part is None else part[index] for part in vars(self).values()]
        return Timings(*parts)


@dataclass(frozen=True)
class Curves:
    """The time that counts at each capacity point, in ps, flushes included; capacities in blocks.

    That is the elapsed time, or with queueing (`is_open`) the mean response time.
    """

    points: Integers
    role_blocks: Integers  # touched blocks by role
    base_ps: Integers  # by role: everything on the base device
    change_ps: dict[tuple[str, str], Integers]  # by coverage and role, at each point
    optimal_ps: Integers  # change of the optimal order at each point
    optimal_blocks: Integers  # by role and point
    totals: native.Totals
    # By coverage and roles, where the order of requests matters (`event_simulation.py`).
    simulated: Mapping[tuple[str, Roles], Timings] = field(default_factory=dict)
    simulated_splits: Mapping[tuple[str, Roles], Splits] = field(default_factory=dict)
    is_open: bool = False
    order_counts: Mapping[str, int] = field(default_factory=dict)

    def splits(self, coverage: str, roles: Sequence[str]) -> Splits:
        """Return the best division of each capacity between `roles`; see `best_splits`."""
        known = self.simulated_splits.get((coverage, tuple(roles)))
        if known is not None:
            return known
        return best_splits(self.points, [self.change_ps[coverage, role] for role in roles])

    def changed_ps(self, coverage: str, blocks: Mapping[str, int]) -> int:
        """Return the change of time with so many blocks of each role on NVM, each one a point."""
        return sum(
            int(self.change_ps[coverage, role][np.searchsorted(self.points, count)])
            for role, count in blocks.items()
            if count
        )

    @property
    def base_total_ps(self) -> int:
        """Elapsed time of the base device alone."""
        return int(self.base_ps.sum())

    @property
    def placed_roles(self) -> list[str]:
        """The roles with blocks to place, of fs, journal and swap."""
        return [role for role in ROLES[:PLACED_ROLES] if self.role_blocks[ROLES.index(role)]]


def sweep(trace: ChargedTrace, points: Integers) -> Curves:
    """Return the elapsed time at each capacity point (blocks, ascending from 0) in one pass.

    For devices on which no request's time depends on another's.
    """
    ordered = order_blocks(trace.touched, points)
    with native.PlacementKernel(trace.setup(ordered)) as kernel:
        for rows in trace.rows():
            kernel.add(rows)
        totals, steps_ps = kernel.finish()
    change = steps_ps.cumsum(axis=1)
    role_blocks = trace.touched.role_blocks()
    flush_ps = trace.devices.flush_ps

    def flushes(role: int, moved: Integers) -> Integers:
        return _flush_change(moved, int(role_blocks[role]), flush_ps) * totals.flushes[role]

    change_ps = {}
    for row in range(native.CURVES - 1):
        coverage, role = COVERAGES[row // PLACED_ROLES], row % PLACED_ROLES
        moved = np.minimum(points, role_blocks[role])
        change_ps[coverage, ROLES[role]] = change[row] + flushes(role, moved)
    return Curves(
        points=points,
        role_blocks=role_blocks,
        base_ps=np.array(totals.base_ps, np.int64) + np.array(totals.flushes) * flush_ps[0],
        change_ps=change_ps,
        optimal_ps=change[native.CURVES - 1]
        + sum(flushes(role, moved) for role, moved in enumerate(ordered.optimal_blocks)),
        optimal_blocks=ordered.optimal_blocks,
        totals=totals,
    )


def read_rows(requests: Path, device_names: list[str]) -> Iterator[Rows]:
    """Yield the rows of requests.parquet as the kernels take them."""
    action_of = np.full(len(OPERATIONS) + 1, native.UNCHARGED, np.uint8)
    for name in ("read", "write", "flush"):
        action_of[OPERATIONS.index(name)] = getattr(native, name.upper())
    for column in read_columns(requests, COLUMNS):
        yield Rows(
            **{name: numbers(column[name]) for name in NUMBERS},
            device=name_codes(column["device"], device_names),
            action=action_of[name_codes(column["operation"], list(OPERATIONS))],
            role=role_codes(column["role"]).astype(np.uint8),
            is_fua=flag_bytes(column["is_fua"]),
            is_preflush=flag_bytes(column["is_preflush"]),
        )


def _flush_change(moved: Integers, blocks: int, flush_ps: tuple[int, int]) -> Integers:
    """Return how much longer one flush takes with `moved` of the role's `blocks` on NVM."""
    on_base, on_nvm = flush_ps
    split = max(flush_ps) - on_base
    whole = on_nvm - on_base
    return np.where(moved == 0, 0, np.where(moved < blocks, split, whole)).astype(np.int64)
