"""Elapsed or response time of placements that are each walked through the trace on their own.

For what depends on the order of requests on a device: a disk whose head moves
(`tracekit/devices.py`) and queueing. With the latter, requests come at their traced times, each
traced device and the NVM serve them first come, first served, and the time that counts is the
mean from arrival to completion. See `replayer/model/event_simulation.h`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracekit._native.placement import (
    HOTTEST,
    OPTIMAL,
    PLACED_ROLES,
    SCENARIO,
    START,
    Rows,
    Setup,
    Walk,
    Walked,
    walk,
)
from tracekit.arrow import ahead
from tracekit.devices import Profile, base_cost, device_cost, disk_of, picoseconds
from tracekit.model.block_orders import OrderedBlocks, TouchedBlocks, order_blocks
from tracekit.model.placement import (
    COVERAGES,
    Curves,
    Splits,
    Timings,
    best_splits,
    read_rows,
    running_best,
)
from tracekit.tables import ROLES

# What a request costs a chain beside its placements, in those: with queues each has its servers.
CHAIN_COST = 30
SERIAL_THREADS = 2


def chains(scenarios: NDArray[np.void]) -> list[list[int]]:
    """Put each placement into the first chain that it continues, as the kernel does."""
    found: list[list[int]] = []
    lasts = np.zeros((0, scenarios["limit"].shape[1]), np.int64)
    orders = np.zeros(0, np.int64)
    for index, scenario in enumerate(scenarios):
        limit = scenario["limit"].astype(np.int64)
        fits = (orders == scenario["order"]) & (lasts <= limit).all(axis=1)
        if not fits.any():
            found.append([])
            lasts = np.vstack([lasts, limit])
            orders = np.append(orders, scenario["order"])
        chain = int(np.argmax(fits)) if fits.any() else len(found) - 1
        found[chain].append(index)
        lasts[chain] = limit
    return found


def shares_of_work(
    scenarios: NDArray[np.void], threads: int, *, is_open: bool
) -> list[NDArray[np.int64]]:
    """Divide placements between threads; each share has the first, the base alone.

    With queues a chain takes the longer, the more placements it has, and chains are divided.
    Without, finding the blocks of a request in an order weighs as much as some chains, so that
    orders are. What takes longest goes to the thread with least to do, and so on.
    """
    tasks: dict[int, list[int]] = {}
    costs: dict[int, int] = {}
    for number, chain in enumerate(chains(scenarios)):
        name = number if is_open else int(scenarios["order"][chain[0]])
        tasks.setdefault(name, []).extend(chain)
        costs[name] = costs.get(name, 0) + CHAIN_COST + (len(chain) if is_open else 0)
    work = [0] * max(threads if is_open else min(threads, SERIAL_THREADS), 1)
    shares: list[list[int]] = [[] for _ in work]
    for name in sorted(tasks, key=lambda name: -costs[name]):
        least = min(range(len(work)), key=lambda thread: (work[thread], thread))
        work[least] += costs[name]
        shares[least] += tasks[name]
    return [np.unique([0, *share]) for share in shares if share]


ORDERS = (HOTTEST, START)

# Coverage and roles of a series of placements, one at each capacity point.
Key = tuple[str, tuple[str, ...]]
ROLES_ALONE = {(role,) for role in ROLES[:PLACED_ROLES]}
OPTIMUM: Key = ("hottest", ("optimal",))


@dataclass(frozen=True)
class _Trace:
    """What every walk of a sweep needs."""

    requests: Path
    touched: TouchedBlocks
    setup: Setup
    devices: tuple[Profile, Profile]
    is_open: bool
    on_rows: Callable[[int], None] | None

    def rows(self) -> Iterator[Rows]:
        for rows in ahead(read_rows(self.requests, self.touched.device_names)):
            yield rows
            if self.on_rows is not None:
                self.on_rows(len(rows.request_id))


def needs_walk(devices: tuple[Profile, Profile], *, is_open: bool) -> bool:
    """Say whether a time depends on the order of requests on a device."""
    return is_open or devices[0].has_head


def sweep_walked(
    trace: tuple[Path, TouchedBlocks],
    *,
    points: NDArray[np.int64],
    devices: tuple[Profile, Profile],
    is_issued: bool,
    is_open: bool,
    on_rows: Callable[[int], None] | None = None,
) -> Curves:
    """Return the curves at `points` (blocks, ascending from 0), each point exact.

    `trace` is requests.parquet and its blocks. Roles share a disk's head and a queue, so a split's
    time is not the sum of its roles': splits are chosen by that sum and then walked themselves.
    """
    requests, touched = trace
    ordered = order_blocks(touched, points)
    setup = _setup(touched, ordered, devices=devices, is_issued=is_issued)
    walks = _Trace(requests, touched, setup, devices, is_open, on_rows)
    role_blocks = touched.role_blocks()
    roles = [role for role in ROLES[:PLACED_ROLES] if role_blocks[ROLES.index(role)]]
    singles, walked = _walk_series(walks, _single_limits(roles, len(points)), points=points)
    curves = _curves((points, touched, ordered), singles, walked=walked, is_open=is_open)
    return _with_splits(walks, curves)


def walk_placement(
    trace: tuple[Path, TouchedBlocks],
    blocks: Mapping[str, int],
    *,
    coverage: str,
    devices: tuple[Profile, Profile],
    is_issued: bool,
    is_open: bool,
) -> tuple[int, int]:
    """Return the time that counts on the base alone and with so many blocks by role on NVM, in ps.

    `trace` is requests.parquet and its blocks.
    """
    requests, touched = trace
    points = np.unique(np.array([0, *blocks.values()], np.int64))
    setup = _setup(touched, order_blocks(touched, points), devices=devices, is_issued=is_issued)
    limits = np.zeros((len(ROLES), 1), np.int64)
    for role, count in blocks.items():
        limits[ROLES.index(role)] = np.searchsorted(points, count) + 1 if count else 0
    base, placed = ("none", ()), (coverage, tuple(blocks))
    series = {base: np.zeros_like(limits), placed: limits}
    walks = _Trace(requests, touched, setup, devices, is_open, None)
    timed, _ = _walk_series(walks, series, points=points)
    return int(timed[base].counted_ps[0]), int(timed[placed].counted_ps[0])


def _setup(
    touched: TouchedBlocks,
    ordered: OrderedBlocks,
    *,
    devices: tuple[Profile, Profile],
    is_issued: bool,
) -> Setup:
    return Setup(
        keys=touched.keys,
        blocks=ordered.blocks,
        devices=touched.devices,
        point_count=len(ordered.optimal_blocks[0]),
        is_issued=is_issued,
        base=base_cost(devices[0]),
        nvm=device_cost(devices[1]),
    )


def _curves(
    placed: tuple[NDArray[np.int64], TouchedBlocks, OrderedBlocks],
    singles: dict[Key, Timings],
    *,
    walked: Walked,
    is_open: bool,
) -> Curves:
    points, touched, ordered = placed
    base = singles["none", ()]
    changes = {key: timings.counted_ps - base.counted_ps for key, timings in singles.items()}
    counts = ("responses", "undated", "beyond", "span_ps")
    return Curves(
        points=points,
        role_blocks=touched.role_blocks(),
        base_ps=_base_by_role(walked, is_open=is_open),
        change_ps={
            (how, held[0]): changes[how, held] for how, held in changes if held in ROLES_ALONE
        },
        optimal_ps=changes[OPTIMUM],
        optimal_blocks=ordered.optimal_blocks,
        totals=walked.totals,
        walked=singles,
        is_open=is_open,
        order_counts={name: getattr(walked, name) for name in counts},
    )


def _single_limits(roles: list[str], count: int) -> dict[Key, NDArray[np.int64]]:
    """Return limits by role and point of the base, of each role alone and of the optimum."""
    rising = np.arange(1, count + 1)
    series: dict[Key, NDArray[np.int64]] = {("none", ()): np.zeros((len(ROLES), count), np.int64)}
    for how, role in itertools.product(COVERAGES, roles):
        limits = np.zeros((len(ROLES), count), np.int64)
        limits[ROLES.index(role)] = rising
        series[how, (role,)] = limits
    series[OPTIMUM] = np.tile(rising, (len(ROLES), 1))
    return series


def _with_splits(walks: _Trace, curves: Curves) -> Curves:
    """Walk the best sum of every two and more roles, and keep what that takes."""
    sums: dict[Key, Splits] = {}
    limits: dict[Key, NDArray[np.int64]] = {}
    for how, size in itertools.product(COVERAGES, range(2, PLACED_ROLES + 1)):
        for held in itertools.combinations(curves.placed_roles, size):
            split = best_splits(curves.points, [curves.change_ps[how, role] for role in held])
            limit = np.zeros((len(ROLES), len(curves.points)), np.int64)
            for role, blocks in zip(held, split.blocks, strict=True):
                limit[ROLES.index(role)] = np.searchsorted(curves.points, blocks) + 1
            sums[how, held], limits[how, held] = split, limit
    if not sums:
        return curves
    timed, _ = _walk_series(walks, limits, points=curves.points)
    splits, walked = {}, {}
    for key, split in sums.items():
        change, best = running_best(timed[key].counted_ps - curves.base_total_ps)
        splits[key] = Splits(change, split.blocks[:, best])
        walked[key] = timed[key].at(best)
    return replace(curves, walked={**curves.walked, **walked}, walked_splits=splits)


def _walk_series(
    walks: _Trace, series: dict[Key, NDArray[np.int64]], *, points: NDArray[np.int64]
) -> tuple[dict[Key, Timings], Walked]:
    """Walk each series' placements, one a point, and the base alone before them.

    Placements that are the same, such as a role alone at capacities beyond its size, are walked
    once.
    """
    base, nvm = walks.devices
    count = len(next(iter(series.values()))[0])
    rows = np.zeros((1 + count * len(series), 1 + len(ROLES)), np.int64)
    for index, (key, limits) in enumerate(series.items()):
        part = rows[1 + index * count : 1 + (index + 1) * count]
        part[:, 0] = _order_of(key)
        part[:, 1:] = limits.T
    distinct, where = np.unique(_plain(rows, walks.touched, points), axis=0, return_inverse=True)
    # What holds more comes later, so that few chains hold all; the base alone holds least.
    rank = np.lexsort((distinct[:, 1:].sum(axis=1), distinct[:, 0]))
    scenarios = np.zeros(len(distinct), np.dtype(SCENARIO))
    scenarios["order"], scenarios["limit"] = distinct[rank, 0], distinct[rank, 1:]
    plan = Walk(
        setup=walks.setup,
        disk=disk_of(base),
        flush_ps=(picoseconds(base.flush_us), picoseconds(nvm.flush_us)),
        scenarios=scenarios,
        is_open=walks.is_open,
        servers=(int(base.parallelism or 1), int(nvm.parallelism or 1)),
    )
    groups = shares_of_work(scenarios, len(os.sched_getaffinity(0)), is_open=walks.is_open)
    walked = walk(plan, walks.rows(), groups=groups)
    place = np.argsort(rank)[where.reshape(-1)]
    timed = {
        key: _timings(walked, place[1 + index * count : 1 + (index + 1) * count], walks.is_open)
        for index, key in enumerate(series)
    }
    return timed, walked


def _plain(
    rows: NDArray[np.int64], touched: TouchedBlocks, points: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Write placements (order, limits by role) that are the same alike.

    A limit of the first point, of no capacity, holds nothing, and one beyond a role's own blocks
    holds no more than one that has all of them; the optimum's order mixes the roles.
    """
    plain = rows.copy()
    whole = np.searchsorted(points, touched.role_blocks()) + 1
    whole[touched.role_blocks() == 0] = 0
    is_own = rows[:, 0] != OPTIMAL
    plain[is_own, 1:] = np.minimum(plain[is_own, 1:], whole)
    plain[:, 1:][plain[:, 1:] <= 1] = 0
    plain[~plain[:, 1:].any(axis=1), 0] = HOTTEST
    return plain


def _timings(walked: Walked, place: NDArray[np.int64], is_open: bool) -> Timings:
    responses = max(walked.responses, 1)
    chosen = place.tolist()
    service = np.array([walked.service_ps[at] for at in chosen], np.int64)
    if not is_open:
        return Timings(service)
    return Timings(
        service,
        np.array([walked.answer_ps[at] // responses for at in chosen], np.int64),
        np.array([walked.makespan_ps[at] for at in chosen], np.int64),
    )


def _order_of(key: Key) -> int:
    if key == OPTIMUM:
        return OPTIMAL
    return ORDERS[COVERAGES.index(key[0])] if key[1] else HOTTEST


def _base_by_role(walked: Walked, *, is_open: bool) -> NDArray[np.int64]:
    """Return each role's part of the base's time; parts of a mean add up to that mean."""
    if not is_open:
        return np.array(walked.role_service_ps, np.int64)
    responses = max(walked.responses, 1)
    sums = np.array([0, *itertools.accumulate(walked.role_answer_ps)], object) // responses
    return np.diff(sums).astype(np.int64)
