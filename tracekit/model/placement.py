"""Elapsed time against NVM capacity for each way to place the blocks of a trace (Kim & Bahn 2017).

Elapsed time is the sum of the service times of all requests, one after the other. A request that
both devices have blocks of is cut as a replay cuts it: the base device serves each run of sectors
that it has, NVM all of its part at once, for there they are neighbours. A flush costs the base
device's flush while the role has blocks there, and NVM's while it has some on it.

Each device has a head: where its last request ended. Where one costs less for going on there, as on
a disk, or requests queue, a time depends on the order of requests on a device, so each placement is
simulated request by request (`replayer/model/event_simulation.h`). With queueing, requests come at
their traced times, each traced device and the NVM serve them first come, first served, and the time
that counts is the mean from arrival to completion.
"""

from __future__ import annotations

import functools
import itertools
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit._native import placement as native
from tracekit._native.placement import HOTTEST, OPTIMAL, PLACED_ROLES, START, Rows
from tracekit.arrow import Integers, ahead, flag_bytes, name_codes, numbers, read_columns
from tracekit.choices import Coverage, words
from tracekit.devices import DevicePair, base_cost, device_cost, disk_of
from tracekit.model.block_orders import OrderedBlocks, TouchedBlocks, order_blocks
from tracekit.tables import OPERATIONS, ROLES, role_codes
from tracekit.units import PS_PER_NS

COVERAGES = words(Coverage)
COLUMNS = [
    "request_id", "queue_ns", "issue_ns", "merged_into", "sector", "length_bytes", "device",
    "operation", "role", "is_fua", "is_preflush", "is_meta",
]  # fmt: skip
NUMBERS = COLUMNS[:6]
Roles = tuple[str, ...]
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
        return self.is_open or self.devices.depend_on_order

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

    def simulation(
        self,
        ordered: OrderedBlocks,
        scenarios: NDArray[np.void],
        *,
        others: tuple[native.Prices, ...] = (),
    ) -> native.SimulationSetup:
        """Return what simulates placements, on other devices too, request by request."""
        return native.SimulationSetup(
            setup=self.setup(ordered),
            disk=disk_of(self.devices.base),
            flush_ps=self.devices.flush_ps,
            scenarios=scenarios,
            is_open=self.is_open,
            servers=self.devices.servers,
            others=others,
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
    for index, rest in enumerate(_remainders(points.tobytes())):
        sums = first[: index + 1] + second[rest]
        chosen = int(sums.argmin())
        found.append((sums[chosen], chosen, rest[chosen]))
    return np.array(found, np.int64).T


@functools.lru_cache(maxsize=1)
def _remainders(points: bytes) -> list[Integers]:
    """Return for each point what remains beside each one up to it, as indexes of points.

    They are the same for all curves of a trace, and take longer than adding these up.
    """
    sizes = np.frombuffer(points, np.int64)
    return [
        np.searchsorted(sizes, size - sizes[: index + 1], side="right") - 1
        for index, size in enumerate(sizes)
    ]


def distinct(values: Sequence[Integers | int]) -> Integers:
    """Return the different whole numbers of arrays and numbers, ascending.

    `np.unique` would import numpy's masked arrays, which takes longer than all that it is used for.
    """
    ordered = np.sort(np.hstack(values).astype(np.int64))
    found: Integers = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return found


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
    # Where the order of requests matters.
    simulated: Mapping[Key, Timings] = field(default_factory=dict)
    simulated_splits: Mapping[Key, Splits] = field(default_factory=dict)
    is_open: bool = False
    order_counts: Mapping[str, int] = field(default_factory=dict)
    # Of a long trace: how many requests were simulated, and by how much more the answer gains there
    # than on all requests.
    sampled_requests: int | None = None
    sampled_off: float = 0.0

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

    @functools.cached_property
    def base_total_ps(self) -> int:
        """Elapsed time of the base device alone."""
        return int(self.base_ps.sum())

    @property
    def placed_roles(self) -> list[str]:
        """The roles with blocks to place, of fs, journal and swap."""
        return [role for role in ROLES[:PLACED_ROLES] if self.role_blocks[ROLES.index(role)]]


def sweep(trace: ChargedTrace, points: Integers) -> Curves:
    """Return the elapsed time at each capacity point (blocks, ascending from 0) in one pass.

    For devices on which no request's time depends on the one before.
    """
    ordered = order_blocks(trace.touched, points)
    with native.PlacementKernel(trace.setup(ordered)) as kernel:
        for rows in trace.rows():
            kernel.add(rows)
        totals, steps_ps = kernel.finish()
    change = steps_ps.cumsum(axis=1)
    role_blocks = trace.touched.role_blocks()
    (_, base_flush_ps), (_, nvm_flush_ps) = trace.devices.flush_ps
    flush_ps = base_flush_ps, nvm_flush_ps

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
            is_meta=flag_bytes(column["is_meta"]),
        )


def _flush_change(moved: Integers, blocks: int, flush_ps: tuple[int, int]) -> Integers:
    """Return how much longer one flush takes with `moved` of the role's `blocks` on NVM."""
    on_base, on_nvm = flush_ps
    whole = on_nvm - on_base
    return np.where(moved == 0, 0, np.where(moved < blocks, on_nvm, whole)).astype(np.int64)


def nested_chains(scenarios: NDArray[np.void]) -> list[list[int]]:
    """Put each placement into the first chain that it continues, as the kernel does."""
    found: list[list[int]] = []
    lasts: list[tuple[int, list[int]]] = []
    placements = zip(scenarios["order"].tolist(), scenarios["limit"].tolist(), strict=True)
    for index, (order, limit) in enumerate(placements):
        fitting = (
            chain
            for chain, (its_order, last) in enumerate(lasts)
            if its_order == order and all(map(operator.le, last, limit))
        )
        chain = next(fitting, len(found))
        if chain == len(found):
            found.append([])
            lasts.append((order, limit))
        found[chain].append(index)
        lasts[chain] = order, limit
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
    return [distinct([0, *share]) for share in shares if share]


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
) -> tuple[dict[Key, Timings], native.Simulated]:
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
    plan = trace.simulation(ordered, scenarios)
    groups = thread_partition(scenarios, len(os.sched_getaffinity(0)), is_open=trace.is_open)
    result = native.simulate(plan, trace.rows(), groups=groups)
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


def _timings(result: native.Simulated, place: Integers, is_open: bool) -> Timings:
    # Sums of response times are whole numbers of Python: they may exceed 64 bits.
    service_ps, makespan_ps, response_ps = (
        np.array(part, object)[place]
        for part in (result.service_ps, result.makespan_ps, result.answer_ps)
    )
    if not is_open:
        return Timings(service_ps.astype(np.int64))
    means = (response_ps // max(result.responses, 1)).astype(np.int64)
    return Timings(service_ps.astype(np.int64), means, makespan_ps.astype(np.int64))


def _base_by_role(result: native.Simulated, *, is_open: bool) -> Integers:
    """Return each role's part of the base's time; parts of a mean add up to that mean."""
    if not is_open:
        return np.array(result.role_service_ps, np.int64)
    sums = np.array([0, *itertools.accumulate(result.role_answer_ps)], object)
    return np.diff(sums // max(result.responses, 1)).astype(np.int64)
