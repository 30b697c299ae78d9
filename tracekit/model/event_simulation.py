"""Elapsed or response time of placements of which each is simulated request by request.

For what depends on the order of requests on a device: a disk whose head moves
(`tracekit/devices.py`) and queueing. With the latter, requests come at their traced times, each
traced device and the NVM serve them first come, first served, and the time that counts is the
mean from arrival to completion. See `replayer/model/event_simulation.h`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tracekit._native import placement as native
from tracekit._native.placement import HOTTEST, OPTIMAL, PLACED_ROLES, START
from tracekit.arrow import Integers
from tracekit.devices import disk_of
from tracekit.model.block_orders import OrderedBlocks, order_blocks
from tracekit.model.placement import (
    COVERAGES,
    ChargedTrace,
    Curves,
    Roles,
    Splits,
    Timings,
    best_splits,
    running_best,
    sweep,
)
from tracekit.tables import ROLES

# What a request costs a chain beside its placements, in those: with queues each has its servers.
CHAIN_COST = 30
SERIAL_THREADS = 2
Key = tuple[str, Roles]
"""Coverage and roles of a series of placements, one at each capacity point."""
Shares = Mapping[str, Integers]
"""Blocks on NVM by role and capacity point, each one a point."""
BASE_ALONE: Key = ("none", ())
OPTIMUM: Key = ("hottest", ("optimal",))
COUNTS = ("responses", "undated", "beyond", "span_ps")


def nested_chains(scenarios: NDArray[np.void]) -> list[list[int]]:
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


def thread_partition(scenarios: NDArray[np.void], threads: int, *, is_open: bool) -> list[Integers]:
    """Divide placements between threads; each thread has the first, the base alone.

    With queues a chain takes the longer, the more placements it has, and chains are divided.
    Without, finding the blocks of a request in an order weighs as much as some chains, so that
    orders are. What takes longest goes to the thread with least to do, and so on.
    """
    tasks: dict[int, list[int]] = {}
    costs: dict[int, int] = {}
    for number, chain in enumerate(nested_chains(scenarios)):
        name = number if is_open else int(scenarios["order"][chain[0]])
        tasks.setdefault(name, []).extend(chain)
        costs[name] = costs.get(name, 0) + CHAIN_COST + (len(chain) if is_open else 0)
    work = [0] * max(threads if is_open else min(threads, SERIAL_THREADS), 1)
    shares: list[list[int]] = [[] for _ in work]
    for name in sorted(tasks, key=lambda name: -costs[name]):
        least = work.index(min(work))
        work[least] += costs[name]
        shares[least] += tasks[name]
    return [np.unique([0, *share]) for share in shares if share]


def curves_at(trace: ChargedTrace, points: Integers) -> Curves:
    """Return the curves at `points`, simulated where the order of requests matters."""
    return simulate_curves(trace, points) if trace.needs_events else sweep(trace, points)


def simulate_curves(trace: ChargedTrace, points: Integers) -> Curves:
    """Return the curves at `points` (blocks, ascending from 0), each point exact.

    Roles share a disk's head and a queue, so a split's time is not the sum of its roles': splits
    are chosen by that sum and then simulated themselves.
    """
    ordered = order_blocks(trace.touched, points)
    role_blocks = trace.touched.role_blocks()
    roles = [role for role in ROLES[:PLACED_ROLES] if role_blocks[ROLES.index(role)]]
    alone = list(itertools.product(COVERAGES, roles))
    series: dict[Key, Shares] = {BASE_ALONE: {}, OPTIMUM: dict.fromkeys(ROLES, points)}
    series |= {(how, (role,)): {role: points} for how, role in alone}
    timed, result = _simulate(trace, ordered, points, series)
    base_ps = timed[BASE_ALONE].compared_ps
    curves = Curves(
        points=points,
        role_blocks=role_blocks,
        base_ps=_base_by_role(result, is_open=trace.is_open),
        change_ps={(how, role): timed[how, (role,)].compared_ps - base_ps for how, role in alone},
        optimal_ps=timed[OPTIMUM].compared_ps - base_ps,
        optimal_blocks=ordered.optimal_blocks,
        totals=result.totals,
        simulated=timed,
        is_open=trace.is_open,
        order_counts={name: getattr(result, name) for name in COUNTS},
    )
    return _with_splits(trace, ordered, curves)


def _with_splits(trace: ChargedTrace, ordered: OrderedBlocks, curves: Curves) -> Curves:
    """Add the times of the best sums of every two and more roles, simulated."""
    sums = {
        (how, roles): best_splits(curves.points, [curves.change_ps[how, role] for role in roles])
        for how, size in itertools.product(COVERAGES, range(2, PLACED_ROLES + 1))
        for roles in itertools.combinations(curves.placed_roles, size)
    }
    if not sums:
        return curves
    series = {key: dict(zip(key[1], split.blocks, strict=True)) for key, split in sums.items()}
    timed, _ = _simulate(trace, ordered, curves.points, series)
    splits, simulated = {}, dict(curves.simulated)
    for key, split in sums.items():
        change, best = running_best(timed[key].compared_ps - curves.base_total_ps)
        splits[key] = Splits(change, split.blocks[:, best])
        simulated[key] = timed[key].at(best)
    return replace(curves, simulated=simulated, simulated_splits=splits)


def _simulate(
    trace: ChargedTrace, ordered: OrderedBlocks, points: Integers, series: Mapping[Key, Shares]
) -> tuple[dict[Key, Timings], native.Walked]:
    """Simulate each series' placements, one a point, and the base alone before them.

    Placements that are the same, such as a role alone at capacities beyond its size, are simulated
    once.
    """
    count = len(points)
    rows = np.zeros((1 + count * len(series), 1 + len(ROLES)), np.int64)
    parts = {key: slice(1 + n * count, 1 + (n + 1) * count) for n, key in enumerate(series)}
    for key, shares in series.items():
        rows[parts[key], 0] = START if key[0] == "start" else OPTIMAL if key == OPTIMUM else HOTTEST
        for role, blocks in shares.items():
            rows[parts[key], 1 + ROLES.index(role)] = np.searchsorted(points, blocks) + 1
    canonical = _canonical(rows, trace.touched.role_blocks(), points)
    distinct, where = np.unique(canonical, axis=0, return_inverse=True)
    # What places more comes later, so that few chains contain all; the base alone places least.
    rank = np.lexsort((distinct[:, 1:].sum(axis=1), distinct[:, 0]))
    scenarios = np.zeros(len(distinct), np.dtype(native.SCENARIO))
    scenarios["order"], scenarios["limit"] = distinct[rank, 0], distinct[rank, 1:]
    plan = native.Walk(
        setup=trace.setup(ordered),
        disk=disk_of(trace.devices.base),
        flush_ps=trace.devices.flush_ps,
        scenarios=scenarios,
        is_open=trace.is_open,
        servers=trace.devices.servers,
    )
    groups = thread_partition(scenarios, len(os.sched_getaffinity(0)), is_open=trace.is_open)
    result = native.walk(plan, trace.rows(), groups=groups)
    place = np.argsort(rank)[where.reshape(-1)]
    timed = {key: _timings(result, place[part], trace.is_open) for key, part in parts.items()}
    return timed, result


def _canonical(rows: Integers, role_blocks: Integers, points: Integers) -> Integers:
    """Write placements (order, limits by role) that are the same alike.

    A limit of the first point, of no capacity, places nothing, and one beyond a role's blocks
    no more than one that has all of them; the optimum's order mixes the roles.
    """
    found = rows.copy()
    whole = np.where(role_blocks == 0, 0, np.searchsorted(points, role_blocks) + 1)
    is_by_role = rows[:, 0] != OPTIMAL
    found[is_by_role, 1:] = np.minimum(found[is_by_role, 1:], whole)
    found[:, 1:][found[:, 1:] <= 1] = 0
    found[~found[:, 1:].any(axis=1), 0] = HOTTEST
    return found


def _timings(result: native.Walked, place: Integers, is_open: bool) -> Timings:
    # Sums of response times are whole numbers of Python: they may exceed 64 bits.
    service_ps, makespan_ps, response_ps = (
        np.array(part, object)[place]
        for part in (result.service_ps, result.makespan_ps, result.answer_ps)
    )
    if not is_open:
        return Timings(service_ps.astype(np.int64))
    means = (response_ps // max(result.responses, 1)).astype(np.int64)
    return Timings(service_ps.astype(np.int64), means, makespan_ps.astype(np.int64))


def _base_by_role(result: native.Walked, *, is_open: bool) -> Integers:
    """Return each role's part of the base's time; parts of a mean add up to that mean."""
    if not is_open:
        return np.array(result.role_service_ps, np.int64)
    sums = np.array([0, *itertools.accumulate(result.role_answer_ps)], object)
    return np.diff(sums // max(result.responses, 1)).astype(np.int64)
