"""The placement of single blocks that takes least time, and how close it is to the best possible.

Roles and their orders do not limit it: blocks of a role that is not known are placed, too. The
bound and the search are `replayer/model/best_placement.h`; a placement at the headline's capacity
is timed by the model of all other placements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit._native import placement as native
from tracekit._native.best_placement import BestKernel, BestSetup, BestSize
from tracekit._native.placement import OPTIMAL
from tracekit.arrow import Integers, int64_column, read_whole, text_column
from tracekit.devices import DevicePair, base_cost, device_cost, disk_of
from tracekit.errors import InputError
from tracekit.model.best_records import BestAt
from tracekit.model.block_orders import OrderedBlocks, TouchedBlocks
from tracekit.model.placement import ChargedTrace, to_ns
from tracekit.store import TraceFolder
from tracekit.tables import BEST_PLACEMENT, ROLES
from tracekit.units import BLOCK_BYTES

TABLE = "simulations/best_placement"
WORK = 4_000_000
"""Requests looked at, to divide savings for all capacities: about 0.1 s of one core."""
LEAST_ROUNDS, MOST_ROUNDS = 3, 64
PATH_WORK, MOST_PATH_ROUNDS = 4 * WORK, 300
"""For one capacity where requests depend on those before: a look at one is simpler there."""
EXCHANGE_WORK = 4 * WORK
"""To exchange blocks: about 0.4 s."""
MOST_PATH_PAIRS = 2_000_000
"""A trace that has more is bounded for all capacities only, which takes less memory."""
MOST_CAPACITIES = 10
ROUNDS_AN_ORDER = 25
"""After so many rounds for one capacity its shares are tried as an order."""
STARTS = 2
"""Orders from which exchanges begin."""
NEAR_RATIO = 0.001
"""Nearer the bound than is shown, no more work is done."""
EXTENT_BLOCKS = (16, 64, 256)
WEIGHTS, BEFORE = "saving per byte", "the capacity before"
OnNvm = NDArray[np.uint8]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Rival:
    """A placement that the best one must not be worse than; `elapsed_ps` None: not known."""

    name: str
    on_nvm: OnNvm
    elapsed_ps: int | None = None


@dataclass(frozen=True)
class Found:
    """A placement at one capacity in blocks."""

    capacity: int
    on_nvm: OnNvm
    elapsed_ps: int
    bound_ps: int | None
    order: str
    is_exchanged: bool
    orders_ps: Mapping[str, int]


def prices_of(devices: DevicePair) -> native.Prices:
    """Return what both devices cost."""
    base, nvm = devices
    return native.Prices(base_cost(base), device_cost(nvm), disk_of(base), devices.flush_ps)


def setup_of(trace: ChargedTrace) -> BestSetup:
    """Return the blocks of a trace as the kernel takes them."""
    touched = trace.touched
    return BestSetup(
        touched.keys, touched.role, touched.devices, trace.is_issued, prices_of(trace.devices)
    )


def rounds(size: BestSize, parts: int) -> int:
    """Return how many rounds a part of the work pays for."""
    return min(max(WORK // parts // max(size.pairs, 1), LEAST_ROUNDS), MOST_ROUNDS)


@dataclass
class Search:
    """A trace that was read, and what looking for the best placement may cost."""

    trace: ChargedTrace
    kernel: BestKernel
    size: BestSize
    starts: Integers  # the first block of each group
    even: Values  # what groups save a block, whatever the capacity
    flushed: tuple[int, ...]  # the roles, by index, that have flushes
    orders: dict[str, Values] = field(default_factory=dict)  # that were tried last

    @property
    def is_ordered(self) -> bool:
        """Whether a request depends on the one before, so that a bound is of one capacity."""
        cost = base_cost(self.trace.devices.base)
        return self.trace.devices.base.has_head or cost.latency_ps != cost.sequential_ps

    def affordable(self, count: int) -> int:
        """Return how many of so many parts of the work pay for a round and a look each."""
        return count if self.size.pairs * count < WORK else 0

    def whole(self, on_nvm: OnNvm) -> Values:
        """Return values of which those of groups that are wholly placed are positive."""
        if not len(self.starts):
            return np.zeros(0)
        return np.where(np.minimum.reduceat(on_nvm, self.starts) > 0, 1.0, -1.0)

    def by_extents(self, values: Values, blocks: int) -> Values:
        """Return the mean value of extents of so many blocks, aligned by key."""
        sizes = np.diff(self.starts, append=len(self.trace.touched.keys))
        extent = self.trace.touched.keys[self.starts] // blocks
        place = np.cumsum(np.append(True, extent[1:] != extent[:-1])) - 1
        means = np.bincount(place, values * sizes) / np.bincount(place, sizes)
        return np.asarray(means[place])

    def roles_first(self, orders: Mapping[str, Values], capacity: int) -> dict[str, Values]:
        """Return orders in which a role that fits is whole, as that saves its flushes."""
        roles = self.trace.touched.role
        found: dict[str, Values] = {}
        sizes = self.trace.touched.role_blocks().tolist()
        for role in self.flushed:
            if 0 < sizes[role] <= capacity:
                is_role = roles[self.starts] == role
                found |= {
                    f"{name}, all of {ROLES[role]} first": np.where(is_role, np.inf, values)
                    for name, values in orders.items()
                }
        return found

    def find(self, capacity: int, rivals: Sequence[Rival], *, parts: int) -> Found:
        """Return the best placement of so many blocks; `parts` share the work."""
        bound_ps = int(self.kernel.bounds_ps(np.array([capacity]))[0])
        even = self.even
        self.orders = {WEIGHTS: even}
        for blocks in EXTENT_BLOCKS if self.is_ordered else ():
            self.orders[f"extents of {blocks * BLOCK_BYTES >> 10} KiB"] = self.by_extents(
                even, blocks
            )
        self.orders |= self.roles_first(self.orders, capacity)
        work = EXCHANGE_WORK // parts // STARTS
        is_climbed = self.size.pairs * 4 < work
        self.orders |= {
            rival.name: self.whole(rival.on_nvm)
            for rival in rivals
            if is_climbed or rival.elapsed_ps is None
        }
        times = {
            name: self.kernel.choose(capacity, values, steps=0)[0]
            for name, values in self.orders.items()
        }
        if self.is_ordered and self.size.pairs <= MOST_PATH_PAIRS:
            bound_ps = self._tightened(capacity, times, bound_ps, parts)
        is_climbed = is_climbed and min(times.values()) > (1 + NEAR_RATIO) * bound_ps
        starts = _starts(times)[: None if is_climbed else 1]
        found = min(
            (self._climbed(capacity, times, name, work * is_climbed) for name in starts),
            key=lambda one: one.elapsed_ps,
        )
        known = {one.name: one.elapsed_ps for one in rivals if one.elapsed_ps is not None}
        found = replace(found, bound_ps=bound_ps, orders_ps=known | dict(found.orders_ps))
        return _not_worse(found, rivals)

    def _tightened(self, capacity: int, times: dict[str, int], bound_ps: int, parts: int) -> int:
        """Return the bound of one capacity, and add the orders of the shares that it is from."""
        count = PATH_WORK // parts // max(self.size.pairs, 1)
        count = min(max(count, LEAST_ROUNDS), MOST_PATH_ROUNDS)
        for begin in range(0, count, ROUNDS_AN_ORDER):
            if min(times.values()) <= (1 + NEAR_RATIO) * bound_ps:
                break
            found_ps = self.kernel.tighten(
                capacity, target_ps=min(times.values()), rounds=min(ROUNDS_AN_ORDER, count - begin)
            )
            bound_ps = max(bound_ps, found_ps)
            values = {f"{WEIGHTS} there": self.kernel.values(self.size.groups)}
            for name, order in (values | self.roles_first(values, capacity)).items():
                elapsed_ps, _ = self.kernel.choose(capacity, order, steps=0)
                if elapsed_ps < times.get(name, elapsed_ps + 1):
                    times[name], self.orders[name] = elapsed_ps, order
        return bound_ps

    def _climbed(self, capacity: int, times: Mapping[str, int], name: str, steps: int) -> Found:
        """Return what exchanges make of an order."""
        elapsed_ps, on_nvm = self.kernel.choose(capacity, self.orders[name], steps=steps)
        return Found(
            capacity, on_nvm, elapsed_ps, None, name, elapsed_ps < times[name], dict(times)
        )


def _starts(times: dict[str, int]) -> list[str]:
    """Return the best orders of different times, for the best one may lead to no better place."""
    names = {elapsed_ps: name for name, elapsed_ps in reversed([*times.items()])}
    return [names[elapsed_ps] for elapsed_ps in sorted(names)[:STARTS]]


def _not_worse(found: Found, rivals: Sequence[Rival]) -> Found:
    """Return the rival instead that takes less time, with parts of groups, if there is one."""
    for one in rivals:
        if one.elapsed_ps is not None and one.elapsed_ps < found.elapsed_ps:
            found = Found(
                found.capacity, one.on_nvm, one.elapsed_ps, found.bound_ps, one.name,
                is_exchanged=False, orders_ps=found.orders_ps,
            )  # fmt: skip
    return found


@contextmanager
def searching(trace: ChargedTrace) -> Iterator[Search]:
    """Read a trace once, and yield it with savings divided for all capacities."""
    with BestKernel(setup_of(trace)) as kernel:
        for rows in trace.rows():
            kernel.add(rows)
        size = kernel.finish()
        kernel.weigh(rounds(size, 2))
        yield Search(
            trace,
            kernel,
            size,
            kernel.group_starts(size.groups),
            kernel.values(size.groups),
            tuple(role for role, count in enumerate(kernel.flushes()[: len(ROLES)]) if count),
        )


def time_ps(trace: ChargedTrace, on_nvm: OnNvm) -> tuple[int, int]:
    """Return the time on the base alone and of a placement of blocks, by the model of all others.

    With queueing it is the mean response time.
    """
    blocks = np.zeros(len(on_nvm), np.dtype(native.BLOCK))
    blocks["role"] = trace.touched.role
    blocks["point"] = 1
    blocks["point"][:, OPTIMAL] = on_nvm == 0
    scenarios = np.zeros(2, np.dtype(native.SCENARIO))
    scenarios["order"][1], scenarios["limit"][1] = OPTIMAL, 1
    ordered = OrderedBlocks(blocks, np.zeros((len(ROLES), 1), np.int64))
    result = native.simulate(trace.simulation(ordered, scenarios), trace.rows())
    alone_ps, placed_ps = result.answer_ps if trace.is_open else result.service_ps
    count = max(result.responses, 1) if trace.is_open else 1
    return alone_ps // count, placed_ps // count


def best_at(touched: TouchedBlocks, found: Found, *, base_ps: int) -> BestAt:
    """Return what recommendation.json says of a placement."""
    by_role = np.bincount(touched.role, found.on_nvm, minlength=len(ROLES)).astype(int)
    bound_ps = found.bound_ps
    return BestAt(
        capacity_bytes=found.capacity * BLOCK_BYTES,
        placed_bytes=int(by_role.sum()) * BLOCK_BYTES,
        role_bytes={
            role: int(blocks) * BLOCK_BYTES
            for role, blocks in zip(ROLES, by_role, strict=True)
            if blocks
        },
        elapsed_ns=to_ns(found.elapsed_ps),
        gain_ratio=1 - found.elapsed_ps / base_ps if base_ps else 0.0,
        bound_ns=None if bound_ps is None else to_ns(bound_ps),
        gap_ratio=max(found.elapsed_ps / bound_ps - 1, 0.0) if bound_ps else None,
        order=found.order,
        is_exchanged=found.is_exchanged,
    )


def extents(touched: TouchedBlocks, on_nvm: OnNvm) -> pa.Table:
    """Return the runs of placed blocks of one role, in the order of device and block."""
    chosen = np.flatnonzero(on_nvm)
    keys, role = touched.keys[chosen], touched.role[chosen]
    is_new = np.append(True, (np.diff(keys) != 1) | (role[1:] != role[:-1]))[: len(keys)]
    begin = np.flatnonzero(is_new)
    # Devices without blocks have no keys, and the entry after the last one is empty.
    entries = touched.devices[:-1]
    used = np.flatnonzero(entries["blocks"] > 0)
    device = used[np.searchsorted(entries["first_key"][used], keys[begin], side="right") - 1]
    first = keys[begin] - entries["first_key"][device] + entries["first_block"][device]
    columns = [
        text_column(device, touched.device_names),
        int64_column(first),
        int64_column(np.diff(begin, append=len(keys))),
        text_column(role[begin].astype(np.int64), ROLES),
    ]
    return pa.Table.from_arrays(columns, schema=BEST_PLACEMENT)


def read_best(folder: TraceFolder, touched: TouchedBlocks) -> OnNvm:
    """Return the blocks of the best placement; InputError where it places nothing."""
    file = folder.require(TABLE, made_by="recommend")
    table = read_whole(file)
    if not len(table):
        raise InputError(
            f"{file}: the best placement leaves everything on the base device",
            hint="replay without --placement",
        )
    return checked_blocks(file, table, touched=touched)


def checked_blocks(file: Path, table: pa.Table, *, touched: TouchedBlocks) -> OnNvm:
    """Return which touched blocks are in the extents of a file's table; InputError names a row."""
    for number, row in enumerate(table.to_pylist(), 1):
        if reason := _fault(touched, row):
            raise InputError(f"{file}, row {number}: {reason}", hint="run recommend again")
    return blocks_of(touched, table)


def _fault(touched: TouchedBlocks, row: Mapping[str, Any]) -> str | None:
    """Return what is wrong with an extent of blocks that somebody may have edited."""
    known = touched.device_names
    if row["device"] not in known:
        return f"there is no device '{row['device']}' in the trace, which has {', '.join(known)}"
    for column, what, least in (("first_block", "block", 0), ("blocks", "number of blocks", 1)):
        if row[column] is None or row[column] < least:
            return f"{row[column]} is no {what} from {least} up"
    return None


def blocks_of(touched: TouchedBlocks, table: pa.Table) -> OnNvm:
    """Return which touched blocks are in the extents of a table."""
    on_nvm = np.zeros(len(touched.keys), np.uint8)
    places = {name: touched.devices[index] for index, name in enumerate(touched.device_names)}
    for row in table.to_pylist():
        entry = places[row["device"]]
        first = int(row["first_block"]) - int(entry["first_block"]) + int(entry["first_key"])
        low, high = np.searchsorted(touched.keys, [first, first + int(row["blocks"])])
        on_nvm[low:high] = 1
    return on_nvm
