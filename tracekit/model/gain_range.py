"""How much a recommendation would gain on other devices, and in each window of the trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tracekit._native.placement import (
    HELD_ALL,
    HELD_NONE,
    HELD_SOME,
    HOTTEST,
    PLACED_ROLES,
    SCENARIO,
    START,
    Counts,
    Disk,
    Held,
    Ledger,
    Prices,
    Rows,
    Setup,
    Walk,
    WalkKernel,
)
from tracekit.arrow import ahead
from tracekit.devices import Profile, base_cost, device_cost, disk_of, picoseconds
from tracekit.model.answer import saved_ratio
from tracekit.model.block_orders import TouchedBlocks, blocks_in_order, order_blocks
from tracekit.model.placement import read_rows
from tracekit.model.timings import OPEN, Variant, variants
from tracekit.model.windows import Cut, Cutter
from tracekit.tables import ROLES
from tracekit.units import BLOCK_BYTES


def hold(
    touched: TouchedBlocks,
    shares: Mapping[str, int],
    *,
    coverage: str,
    is_issued: bool,
    disks: tuple[Disk, ...],
) -> Held:
    """Put so many blocks of each role on NVM, in the order of the coverage."""
    on_nvm = np.zeros(len(touched.keys), np.uint8)
    held = [HELD_NONE] * len(ROLES)
    for role in ROLES[:PLACED_ROLES]:
        count, index = shares.get(role, 0), ROLES.index(role)
        order: NDArray[np.int64] = blocks_in_order(touched, role, coverage=coverage)
        on_nvm[order[:count]] = index + 1
        if count and len(order):
            held[index] = HELD_ALL if count >= len(order) else HELD_SOME
    return Held(touched.keys, on_nvm, touched.devices, tuple(held), is_issued, disks)


def disks_of(pairs: list[Devices]) -> tuple[Disk, ...]:
    """Return each disk once that is the base device of a pair."""
    disks = (disk_of(base) for base, _ in pairs)
    return tuple(dict.fromkeys(disk for disk in disks if disk is not None))


def time_ps(counts: Counts, devices: Devices, *, disks: tuple[Disk, ...]) -> int:
    """Return what the counted requests take on base and NVM, to the picosecond.

    Each part of a request costs its device's latency, or what continuing costs it, and its
    transfer; a flush of a role that is on both devices the longer of both. A disk's head costs its
    positions, and every part on it what continuing does.
    """
    base, nvm = devices
    total = 0
    for which, cost in enumerate((base_cost(base), device_cost(nvm))):
        on_disk = which == 0 and base.has_head
        for op in range(2):
            fresh_ps = cost.sequential_ps[op] if on_disk else cost.latency_ps[op]
            total += counts.apart[which][op] * fresh_ps
            total += counts.joined[which][op] * cost.sequential_ps[op]
            total += counts.sectors[which][op] * cost.sector_ps[op]
        total += counts.fua[which] * cost.fua_ps
    flush_ps = (picoseconds(base.flush_us), picoseconds(nvm.flush_us))
    total += counts.flushes[HELD_NONE] * flush_ps[0] + counts.flushes[HELD_ALL] * flush_ps[1]
    total += counts.flushes[HELD_SOME] * max(flush_ps)
    disk = disk_of(base)
    return total + (0 if disk is None else counts.position_ps[disks.index(disk)])


Devices = tuple[Profile, Profile]


@dataclass(frozen=True)
class Placed:
    """A placement, so many blocks of each role on NVM, and the devices that it is tried on."""

    touched: TouchedBlocks
    shares: Mapping[str, int]
    coverage: str
    devices: Sequence[Devices]  # first those that the recommendation was made for
    is_issued: bool
    is_open: bool


class Counter(Protocol):
    """Takes requests in their order."""

    def add(self, rows: Rows) -> None:
        """Take the next requests."""
        ...

    def finish(self) -> list[float] | None:
        """Return the gain on each of the devices, None where nothing takes time; begin anew."""
        ...


@contextmanager
def counters(placed: Placed) -> Iterator[tuple[Counter, Counter]]:
    """Yield a counter of the whole trace, and one of its windows on the first devices only."""
    with ExitStack() as stack:
        if placed.is_open:
            yield _queued(placed, stack)
            return
        disks = disks_of(list(placed.devices))
        held = hold(
            placed.touched,
            placed.shares,
            coverage=placed.coverage,
            is_issued=placed.is_issued,
            disks=disks,
        )
        whole, part = (stack.enter_context(Ledger(held)) for _ in range(2))
        yield _Counted(whole, placed.devices, disks), _Counted(part, placed.devices[:1], disks)


@dataclass
class _Counted:
    """Requests one after the other: their parts are counted and then priced."""

    ledger: Ledger
    devices: Sequence[Devices]
    disks: tuple[Disk, ...]

    def add(self, rows: Rows) -> None:
        self.ledger.add(rows)

    def finish(self) -> list[float] | None:
        counts = self.ledger.finish()
        if counts[0].is_empty:
            return None
        times = [[time_ps(one, pair, disks=self.disks) for one in counts] for pair in self.devices]
        return [saved_ratio(placed_ps, alone_ps) for alone_ps, placed_ps in times]


def _queued(placed: Placed, stack: ExitStack) -> tuple[Counter, Counter]:
    points = np.unique(np.array([0, *placed.shares.values()], np.int64))
    base, nvm = placed.devices[0]
    first, *others = (_prices(pair) for pair in placed.devices)
    plan = Walk(
        setup=Setup(
            keys=placed.touched.keys,
            blocks=order_blocks(placed.touched, points).blocks,
            devices=placed.touched.devices,
            point_count=len(points),
            is_issued=placed.is_issued,
            base=first.base,
            nvm=first.nvm,
        ),
        disk=first.disk,
        flush_ps=first.flush_ps,
        scenarios=_scenarios(placed, points),
        is_open=True,
        servers=(int(base.parallelism or 1), int(nvm.parallelism or 1)),
        others=tuple(others),
    )
    kernel = stack.enter_context(WalkKernel(plan, np.arange(2)))
    part = _Windowed(plan, kernel)
    stack.callback(part.close)
    return _Queued(kernel), part


def _prices(devices: Devices) -> Prices:
    base, nvm = devices
    flush_ps = (picoseconds(base.flush_us), picoseconds(nvm.flush_us))
    return Prices(base_cost(base), device_cost(nvm), disk_of(base), flush_ps)


def _scenarios(placed: Placed, points: NDArray[np.int64]) -> NDArray[np.void]:
    """Return the base alone and the placement."""
    scenarios = np.zeros(2, np.dtype(SCENARIO))
    scenarios["order"] = (HOTTEST, HOTTEST if placed.coverage == "hottest" else START)
    for role, blocks in placed.shares.items():
        if blocks:
            limit = int(np.searchsorted(points, blocks)) + 1
            scenarios["limit"][1, ROLES.index(role)] = limit
    return scenarios


@dataclass
class _Queued:
    """Requests that come at their times and queue: mean response times are compared."""

    kernel: WalkKernel

    def add(self, rows: Rows) -> None:
        self.kernel.add(rows)

    def finish(self) -> list[float] | None:
        self.kernel.finish()
        responses, answers = self.kernel.answers_ps()
        if not responses:
            return None
        return [saved_ratio(placed_ps, alone_ps) for alone_ps, placed_ps in answers]


@dataclass
class _Windowed:
    """A walk of its own for each window: its queues begin empty."""

    plan: Walk
    first: WalkKernel
    kernel: WalkKernel | None = None

    def add(self, rows: Rows) -> None:
        if self.kernel is None:
            self.kernel = WalkKernel(self.plan, np.arange(2), twin=self.first)
        self.kernel.add(rows)

    def finish(self) -> list[float] | None:
        found = _Queued(self.kernel).finish() if self.kernel is not None else None
        self.close()
        return found

    def close(self) -> None:
        if self.kernel is not None:
            self.kernel.__exit__(None, None, None)
        self.kernel = None


FACTORS = (0.5, 2.0)


@dataclass(frozen=True)
class PartGain:
    """Gain where one part of one device takes `factor` times as long."""

    gain_ratio: float
    device: str
    parameter: str
    factor: float


@dataclass(frozen=True)
class WindowGain:
    """Gain in one window, were it a trace of its own."""

    gain_ratio: float
    window: int
    start_ns: int | None
    end_ns: int | None
    requests: int


@dataclass(frozen=True)
class GainRange:
    """Gains of the answer's shares, one a changed part and one a window that has requests."""

    gain_ratio: float  # on the devices as they are
    parts: tuple[PartGain, ...]
    windows: tuple[WindowGain, ...]
    cut: Cut
    factors: tuple[float, ...]

    def told(self) -> dict[str, Any]:
        """Return the least and the most, over all and by kind, as recommendation.json has them."""
        found: dict[str, Any] = {"factors": list(self.factors), "cut": asdict(self.cut)}
        every: tuple[PartGain | WindowGain, ...] = (*self.parts, *self.windows)
        for name, gains in (("parameter", self.parts), ("window", self.windows)):
            found[name] = _ends(gains) if gains else None
        low, high = _least(every), _most(every)
        return {"low_ratio": low.gain_ratio, "high_ratio": high.gain_ratio, **found}


def gain_range(
    trace: tuple[Path, TouchedBlocks],
    cut: Cut,
    *,
    result: Mapping[str, Any],
    factors: tuple[float, ...] = FACTORS,
) -> GainRange | None:
    """Return the range of a recommendation, from one pass; None where nothing is placed.

    `trace` is requests.parquet and its blocks, `result` the content of recommendation.json.
    """
    answer = result["answer"]
    if answer["placement"] == "base":
        return None
    base, nvm = (Profile(**profile) for profile in result["profiles"])
    changes = list(variants((base, nvm), factors))
    placed = Placed(
        touched=trace[1],
        shares={role: answer[f"{role}_bytes"] // BLOCK_BYTES for role in ROLES[:PLACED_ROLES]},
        coverage=result["coverage"],
        devices=[(base, nvm), *(change.of((base, nvm)) for change in changes)],
        is_issued=result["level"] == "issued",
        is_open=result.get("queueing") == OPEN,
    )
    with counters(placed) as (whole, part):
        batches = ahead(read_rows(trace[0], trace[1].device_names))
        windows = tuple(_windows(batches, whole, part, cut))
        gains = whole.finish()
    if gains is None:
        return None
    parts = zip(changes, gains[1:], strict=True)
    found = tuple(_part(change, gain) for change, gain in parts)
    return GainRange(gains[0], found, windows, cut, factors)


def _windows(
    batches: Iterator[Rows], whole: Counter, part: Counter, cut: Cut
) -> Iterator[WindowGain]:
    """Give the whole trace to one counter, and yield what the other gains in each window."""
    cutter = Cutter(cut)
    current: int | None = None
    for rows in batches:
        whole.add(rows)
        time_ns = np.where(rows.queue_ns < 0, rows.issue_ns, rows.queue_ns)
        for number, begin, end in cutter.parts(time_ns):
            if current is not None and current != number:
                yield from _closed(part, cutter, current)
            current = number
            part.add(_slice(rows, begin, end))
    yield from _closed(part, cutter, current)


def _closed(part: Counter, cutter: Cutter, number: int | None) -> Iterator[WindowGain]:
    gains = part.finish()
    if gains is not None and number is not None:
        one = cutter.window(number)
        yield WindowGain(gains[0], one.number, one.start_ns, one.end_ns, one.requests)


def _slice(rows: Rows, begin: int, end: int) -> Rows:
    if end - begin == len(rows.request_id):
        return rows
    return Rows(**{one.name: getattr(rows, one.name)[begin:end] for one in fields(Rows)})


def _part(change: Variant, gain_ratio: float) -> PartGain:
    return PartGain(gain_ratio, change.device, change.parameter, change.factor)


def _ends(gains: tuple[PartGain | WindowGain, ...]) -> dict[str, Any]:
    return {"tried": len(gains), "low": asdict(_least(gains)), "high": asdict(_most(gains))}


def _least(gains: tuple[PartGain | WindowGain, ...]) -> PartGain | WindowGain:
    return min(gains, key=lambda one: one.gain_ratio)


def _most(gains: tuple[PartGain | WindowGain, ...]) -> PartGain | WindowGain:
    return max(gains, key=lambda one: one.gain_ratio)
