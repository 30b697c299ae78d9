"""The best placement of single blocks for a long trace, whose requests are weighed part by part.

Of each part of the requests the savings are divided between its blocks, as for a whole trace. The
sums over all parts are at least what any blocks save together, so the largest ones bound each
placement, and they are the first order that is tried. Orders are compared on the trace's sample.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from tracekit._native.best_placement import BestKernel
from tracekit.arrow import Integers
from tracekit.devices import base_cost, disk_of
from tracekit.model.best_placement import (
    EXTENT_BLOCKS,
    WEIGHTS,
    Found,
    OnNvm,
    Rival,
    Values,
    setup_of,
    time_ps,
)
from tracekit.model.run_sample import LongTrace
from tracekit.tables import ROLES
from tracekit.units import BLOCK_BYTES

PART_BATCHES, AT_ONCE, ROUNDS = 4, 2, 2
PARTS_NOTE = (
    "the best placement is of savings that were divided in parts of the trace, of all its requests;"
    " blocks are not exchanged, and it is not tried on other devices and in windows"
)


@dataclass(frozen=True)
class Part:
    """What groups of blocks, from these first ones on, save a block in a part of the requests."""

    starts: Integers
    values: Values
    constant_ps: int
    flush_ps: Values  # by role: saved where it is wholly on NVM, beside its blocks' values


@dataclass
class Weights:
    """What blocks save together at most."""

    steps: Values  # by block: how much more it saves than the block before it
    flush_ps: Values  # by role, as of a part
    constant_ps: int = 0  # what requests take with no block on NVM, at least

    @classmethod
    def of(cls, trace: LongTrace) -> Weights:
        """Add up the parts of a trace."""
        found = cls(np.zeros(len(trace.touched.keys)), np.zeros(len(ROLES)))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            waiting = deque[Future[Part]]()
            for kernel, late in _parts(trace):
                waiting.append(pool.submit(_weigh, trace, kernel, late))
                if len(waiting) >= AT_ONCE:
                    found.add(waiting.popleft().result())
            for one in waiting:
                found.add(one.result())
        return found

    def add(self, part: Part) -> None:
        """Add a part of the requests."""
        self.steps[part.starts] += np.diff(part.values, prepend=0.0)
        self.flush_ps += part.flush_ps
        self.constant_ps += part.constant_ps


def _parts(trace: LongTrace) -> Iterator[tuple[BestKernel, int]]:
    """Yield requests in parts, and how many of a part are issued after the next part begins."""
    kernel, issues_ns = BestKernel(setup_of(trace)), list[Integers]()
    for rows in trace.rows():
        if len(issues_ns) == PART_BATCHES:
            first_ns = rows.queue_ns[:1].max(initial=0)
            yield kernel, sum(int((one > first_ns).sum()) for one in issues_ns)
            kernel, issues_ns = BestKernel(setup_of(trace)), []
        kernel.add(rows)
        issues_ns.append(rows.issue_ns)
    yield kernel, 0


def _weigh(trace: LongTrace, kernel: BestKernel, late: int) -> Part:
    """Divide what a part of the requests saves; the bound is less what it may lack of the others.

    A request at either end could continue one of another part, and one that was merged into a
    request of another part counts for itself.
    """
    cost, disk = base_cost(trace.devices.base), disk_of(trace.devices.base)
    with kernel:
        size = kernel.finish()
        kernel.weigh(ROUNDS)
        own_ps = int(kernel.bounds_ps(np.zeros(1, np.int64))[0])
        most_ps = max(cost.latency_ps) + cost.fua_ps + (disk.unknown_ps if disk else 0)
        edges = len(trace.touched.devices) + 2 * late + kernel.orphans()
        return Part(
            kernel.group_starts(size.groups),
            kernel.values(size.groups) / ROUNDS,
            own_ps - edges * most_ps,
            kernel.flush_ps() / ROUNDS,
        )


def top(values: Values, capacity: int) -> OnNvm:
    """Return the blocks of the largest values that are not below 0; of equals the first ones."""
    chosen = values >= 0
    if int(chosen.sum()) > capacity:
        least = np.partition(values, len(values) - capacity - 1)[len(values) - capacity - 1]
        chosen = values > least
        ties = np.flatnonzero(values == least)[: capacity - int(chosen.sum())]
        chosen[ties] = True
    return chosen.astype(np.uint8)


def find_long(trace: LongTrace, capacity: int, *, rivals: Sequence[Rival]) -> Found:
    """Return the placement of so many blocks that takes least on the sample, of a few orders."""
    weights = Weights.of(trace)
    values = np.cumsum(weights.steps, out=weights.steps)
    flush_ps = weights.flush_ps
    part = trace.sample()
    times: dict[str, int] = {}
    best = WEIGHTS, np.zeros(len(values), np.uint8)
    placed = itertools.chain(
        (
            (name, top(order, capacity))
            for name, order in _orders(trace, values, flush_ps, capacity)
        ),
        ((one.name, one.on_nvm) for one in rivals),
    )
    for name, on_nvm in placed:
        times[name] = time_ps(part, on_nvm)[1]
        if times[name] <= min(times.values()):
            best = name, on_nvm
    name, on_nvm = best
    bound_ps = max(int(weights.constant_ps - _most_ps(trace, values, flush_ps, capacity)), 0)
    return Found(capacity, on_nvm, times[name], bound_ps, name, is_exchanged=False, orders_ps=times)


def _orders(
    trace: LongTrace, values: Values, flush_ps: Values, capacity: int
) -> Iterator[tuple[str, Values]]:
    yield WEIGHTS, values
    for blocks in EXTENT_BLOCKS[::2]:
        extent = trace.touched.keys // blocks
        starts = np.flatnonzero(np.append(True, extent[1:] != extent[:-1]))
        del extent
        sizes = np.diff(starts, append=len(values))
        means = np.add.reduceat(values, starts) / sizes
        yield f"extents of {blocks * BLOCK_BYTES >> 10} KiB", np.repeat(means, sizes)
    whole = trace.touched.role_blocks()
    for role in np.flatnonzero((flush_ps > 0) & (whole > 0) & (whole <= capacity)):
        first = np.where(trace.touched.role == role, np.inf, values)
        yield f"{WEIGHTS}, all of {ROLES[role]} first", first


def _most_ps(trace: LongTrace, values: Values, flush_ps: Values, capacity: int) -> float:
    """Return what a capacity saves at most; a role that is wholly on NVM saves flushes, too."""
    sizes, roles = trace.touched.role_blocks(), trace.touched.role
    flushed = np.flatnonzero((flush_ps > 0) & (sizes > 0)).tolist()
    most = 0.0
    for count in range(len(flushed) + 1):
        for whole in itertools.combinations(flushed, count):
            left = capacity - int(sizes[[*whole]].sum())
            if left < 0:
                continue
            is_whole = np.isin(roles, whole)
            rest = values[~is_whole & (values > 0)]
            if len(rest) > left:
                rest = (
                    np.partition(rest, len(rest) - left)[len(rest) - left :] if left else rest[:0]
                )
            most = max(most, flush_ps[[*whole]].sum() + values[is_whole].sum() + rest.sum())
    return most
