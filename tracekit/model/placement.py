"""Elapsed time against NVM capacity for each way to place the blocks of a trace (Kim & Bahn 2017).

Elapsed time is the sum of the service times of all requests, one after the other. Each device that
holds some blocks of a request costs its fixed cost once and the transfer of the sectors it holds.
A flush costs the base device's flush while a role is wholly there, the longer of both devices'
while it is on both, and NVM's once all its blocks are on NVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracekit._native.placement import (
    CURVES,
    FLUSH,
    PLACED_ROLES,
    READ,
    UNCHARGED,
    WRITE,
    PlacementKernel,
    Rows,
    Setup,
    Totals,
)
from tracekit.arrow import ahead, flag_bytes, name_codes, numbers, read_columns
from tracekit.choices import Coverage, words
from tracekit.devices import Profile, device_cost, picoseconds
from tracekit.model.block_orders import OrderedBlocks, TouchedBlocks, order_blocks
from tracekit.tables import OPERATIONS, ROLES, role_codes


@dataclass(frozen=True)
class Splits:
    """At each capacity point: the least change of time, and the blocks given to each role."""

    change_ps: NDArray[np.int64]
    blocks: NDArray[np.int64]  # by role (in the order given) and point


def best_splits(points: NDArray[np.int64], changes: list[NDArray[np.int64]]) -> Splits:
    """Return the best division of each capacity (blocks, ascending from 0) between the roles.

    `changes` are the roles' curves at `points`. Roles share no request, so their changes add up.
    Shares are points themselves, and capacity may stay unused where using it costs time; with two
    roles no better division into points exists, with more each further role is weighed against the
    best division of the rest, rounded down to a point. Of equal divisions the first role gets less.
    """
    total = np.zeros(len(points), np.int64)
    shares = np.zeros((0, len(points)), np.int64)
    for change in changes:
        own, best = running_best(change)
        total, before_index, own_index = _pair(points, total, own)
        shares = np.vstack([shares[:, before_index], points[best[own_index]]])
    return Splits(total, shares)


def running_best(change: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the least value up to each point, and the index of the first point that has it."""
    least = np.minimum.accumulate(change)
    is_new = np.concatenate([[True], least[1:] < least[:-1]])
    index = np.maximum.accumulate(np.where(is_new, np.arange(len(change)), 0))
    return least, index


def _pair(
    points: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the best sum at each point and the indexes of both parts; both curves only fall."""
    count = len(points)
    total = np.empty(count, np.int64)
    first_index = np.empty(count, np.int64)
    second_index = np.empty(count, np.int64)
    for index in range(count):
        rest = np.searchsorted(points, points[index] - points[: index + 1], side="right") - 1
        sums = first[: index + 1] + second[rest]
        chosen = int(np.argmin(sums))
        total[index], first_index[index], second_index[index] = sums[chosen], chosen, rest[chosen]
    return total, first_index, second_index


COVERAGES = words(Coverage)
COLUMNS = [
    "request_id",
    "queue_ns",
    "issue_ns",
    "merged_into",
    "sector",
    "length_bytes",
    "device",
    "operation",
    "role",
    "is_fua",
    "is_preflush",
]


@dataclass(frozen=True)
class Timings:
    """Times of one placement at each capacity point, in ps; the last two with queueing only."""

    service_ps: NDArray[np.int64]  # sum over all requests
    response_ps: NDArray[np.int64] | None = None  # mean from arrival to completion
    makespan_ps: NDArray[np.int64] | None = None  # from the first arrival to the last completion

    @property
    def counted_ps(self) -> NDArray[np.int64]:
        """The time that placements are compared by."""
        return self.service_ps if self.response_ps is None else self.response_ps

    def at(self, index: NDArray[np.int64]) -> Timings:
        """Return the times at other points."""
        response, makespan = (
            None if part is None else part[index] for part in (self.response_ps, self.makespan_ps)
        )
        return Timings(self.service_ps[index], response, makespan)


@dataclass(frozen=True)
class Curves:
    """The time that counts at each capacity point, in ps, flushes included; capacities in blocks.

    That is the elapsed time, or with queueing (`is_open`) the mean response time.
    """

    points: NDArray[np.int64]
    role_blocks: NDArray[np.int64]  # touched blocks by role
    base_ps: NDArray[np.int64]  # by role: everything on the base device
    change_ps: dict[tuple[str, str], NDArray[np.int64]]  # by coverage and role, at each point
    optimal_ps: NDArray[np.int64]  # change of the optimal order at each point
    optimal_blocks: NDArray[np.int64]  # by role and point
    totals: Totals
    # Where the order of requests matters (`walked.py`), by coverage and roles; otherwise empty.
    walked: Mapping[tuple[str, tuple[str, ...]], Timings] = field(default_factory=dict)
    walked_splits: Mapping[tuple[str, tuple[str, ...]], Splits] = field(default_factory=dict)
    is_open: bool = False
    order_counts: Mapping[str, int] = field(default_factory=dict)

    def splits(self, coverage: str, roles: Sequence[str]) -> Splits:
        """Return the best division of each capacity between `roles`; see `best_splits`."""
        known = self.walked_splits.get((coverage, tuple(roles)))
        if known is not None:
            return known
        return best_splits(self.points, [self.change_ps[coverage, role] for role in roles])

    @property
    def base_total_ps(self) -> int:
        """Elapsed time of the base device alone."""
        return int(self.base_ps.sum())

    @property
    def placed_roles(self) -> list[str]:
        """The roles with blocks to place, of fs, journal and swap."""
        return [role for role in ROLES[:PLACED_ROLES] if self.role_blocks[ROLES.index(role)]]


def sweep(
    requests: Path,
    touched: TouchedBlocks,
    *,
    points: NDArray[np.int64],
    devices: tuple[Profile, Profile],
    is_issued: bool,
    on_rows: Callable[[int], None] | None = None,
) -> Curves:
    """Return the elapsed time at each capacity point (blocks, ascending from 0) in one pass.

    `devices` are base and NVM. `is_issued` charges requests as the device got them, merged ones
    together and in issue order; otherwise as they were queued.
    """
    ordered = order_blocks(touched, points)
    base, nvm = devices
    setup = Setup(
        keys=touched.keys,
        blocks=ordered.blocks,
        devices=touched.devices,
        point_count=len(points),
        is_issued=is_issued,
        base=device_cost(base),
        nvm=device_cost(nvm),
    )
    with PlacementKernel(setup) as kernel:
        for rows in ahead(read_rows(requests, touched.device_names)):
            kernel.add(rows)
            if on_rows is not None:
                on_rows(len(rows.request_id))
        totals, steps_ps = kernel.finish()
    flush_ps = (picoseconds(base.flush_us), picoseconds(nvm.flush_us))
    return _curves(points, touched, ordered, (totals, steps_ps), flush_ps)


def read_rows(requests: Path, device_names: list[str]) -> Iterator[Rows]:
    """Yield the rows of requests.parquet as the kernels take them."""
    action_of = np.full(len(OPERATIONS) + 1, UNCHARGED, np.uint8)
    for name, action in (("read", READ), ("write", WRITE), ("flush", FLUSH)):
        action_of[OPERATIONS.index(name)] = action

    for column in read_columns(requests, COLUMNS):
        yield Rows(
            **{name: numbers(column[name]) for name in COLUMNS[:6]},
            device=name_codes(column["device"], device_names),
            action=action_of[name_codes(column["operation"], list(OPERATIONS))],
            role=role_codes(column["role"]).astype(np.uint8),
            is_fua=flag_bytes(column["is_fua"]),
            is_preflush=flag_bytes(column["is_preflush"]),
        )


def _curves(
    points: NDArray[np.int64],
    touched: TouchedBlocks,
    ordered: OrderedBlocks,
    result: tuple[Totals, NDArray[np.int64]],
    flush_ps: tuple[int, int],
) -> Curves:
    totals, steps_ps = result
    change = steps_ps.cumsum(axis=1)
    role_blocks = touched.role_blocks()
    base_ps = np.array(totals.base_ps, np.int64) + np.array(totals.flushes) * flush_ps[0]

    change_ps = {}
    for row in range(CURVES - 1):
        coverage, role = COVERAGES[row // PLACED_ROLES], row % PLACED_ROLES
        moved = np.minimum(points, role_blocks[role])
        flushes = _flush_change(moved, int(role_blocks[role]), flush_ps) * totals.flushes[role]
        change_ps[coverage, ROLES[role]] = change[row] + flushes

    optimal_ps = change[CURVES - 1]
    for role, flushes_of_role in enumerate(totals.flushes):
        moved = ordered.optimal_blocks[role]
        optimal_ps = optimal_ps + flushes_of_role * _flush_change(
            moved, int(role_blocks[role]), flush_ps
        )
    return Curves(
        points=points,
        role_blocks=role_blocks,
        base_ps=base_ps,
        change_ps=change_ps,
        optimal_ps=optimal_ps,
        optimal_blocks=ordered.optimal_blocks,
        totals=totals,
    )


def _flush_change(
    moved: NDArray[np.int64], blocks: int, flush_ps: tuple[int, int]
) -> NDArray[np.int64]:
    """Return how much longer one flush takes with `moved` of the role's `blocks` on NVM."""
    on_base, on_nvm = flush_ps
    split = max(flush_ps) - on_base
    whole = on_nvm - on_base
    return np.where(moved == 0, 0, np.where(moved < blocks, split, whole)).astype(np.int64)
