"""How much a recommendation would gain on other devices, and in each window of the trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields

import numpy as np

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
    Walk,
    WalkKernel,
)
from tracekit.devices import DevicePair, base_cost, device_cost, disk_of
from tracekit.model.answer import Answer, Ends, GainRange, Kind, PartGain, WindowGain, saved_ratio
from tracekit.model.block_orders import blocks_in_order, order_blocks
from tracekit.model.placement import ChargedTrace
from tracekit.model.timings import variants
from tracekit.model.windows import Cut, Cutter
from tracekit.tables import ROLES

FACTORS = (0.5, 2.0)


@dataclass(frozen=True)
class Placed:
    """A placement, so many blocks of each role on NVM, and the devices that it is tried on."""

    trace: ChargedTrace
    shares: Mapping[str, int]
    coverage: str
    devices: Sequence[DevicePair]  # first those that the recommendation was made for

    @property
    def disks(self) -> tuple[Disk, ...]:
        """Each disk once that is the base device of a pair."""
        disks = (disk_of(pair.base) for pair in self.devices)
        return tuple(dict.fromkeys(disk for disk in disks if disk is not None))

    def on_nvm(self) -> Held:
        """Return which blocks are on NVM, as the ledger takes them."""
        touched = self.trace.touched
        role_of = np.zeros(len(touched.keys), np.uint8)
        parts = [HELD_NONE] * len(ROLES)
        for index, role in enumerate(ROLES[:PLACED_ROLES]):
            order = blocks_in_order(touched, role, coverage=self.coverage)
            count = self.shares.get(role, 0)
            role_of[order[:count]] = index + 1
            if count and len(order):
                parts[index] = HELD_ALL if count >= len(order) else HELD_SOME
        is_issued = self.trace.is_issued
        return Held(touched.keys, role_of, touched.devices, tuple(parts), is_issued, self.disks)

    def time_ps(self, counts: Counts, devices: DevicePair) -> int:
        """Return what counted requests take on devices, to the picosecond.

        Each part of a request costs its device's latency, or what continuing costs it, and its
        transfer; a flush of a role that is on both devices the longer of both. A disk's head costs
        its positions, and every part on it what continuing does.
        """
        total = 0
        for which, cost in enumerate((base_cost(devices.base), device_cost(devices.nvm))):
            has_head = which == 0 and devices.base.has_head
            for op in range(2):
                fresh_ps = cost.sequential_ps[op] if has_head else cost.latency_ps[op]
                total += counts.apart[which][op] * fresh_ps
                total += counts.joined[which][op] * cost.sequential_ps[op]
                total += counts.sectors[which][op] * cost.sector_ps[op]
            total += counts.fua[which] * cost.fua_ps
        base_ps, nvm_ps = devices.flush_ps
        total += counts.flushes[HELD_NONE] * base_ps + counts.flushes[HELD_ALL] * nvm_ps
        total += counts.flushes[HELD_SOME] * max(base_ps, nvm_ps)
        disk = disk_of(devices.base)
        return total + (0 if disk is None else counts.position_ps[self.disks.index(disk)])

    def events(self) -> Walk:
        """Return the base alone and the placement as an event simulation takes them."""
        points = np.unique(np.array([0, *self.shares.values()], np.int64))
        scenarios = np.zeros(2, np.dtype(SCENARIO))
        scenarios["order"] = (HOTTEST, HOTTEST if self.coverage == "hottest" else START)
        for role, blocks in self.shares.items():
            if blocks:
                limit = int(np.searchsorted(points, blocks)) + 1
                scenarios["limit"][1, ROLES.index(role)] = limit
        first, *others = (
            Prices(base_cost(pair.base), device_cost(pair.nvm), disk_of(pair.base), pair.flush_ps)
            for pair in self.devices
        )
        return Walk(
            setup=self.trace.setup(order_blocks(self.trace.touched, points)),
            disk=first.disk,
            flush_ps=first.flush_ps,
            scenarios=scenarios,
            is_open=True,
            servers=self.devices[0].servers,
            others=tuple(others),
        )


@dataclass
class LedgerGains:
    """Gains of requests one after the other: their parts are counted and then priced."""

    ledger: Ledger
    placed: Placed
    devices: Sequence[DevicePair]

    def add(self, rows: Rows) -> None:
        """Take the next requests."""
        self.ledger.add(rows)

    def finish(self) -> list[float] | None:
        """Return the gain on each of the devices, None where nothing takes time; begin anew."""
        counts = self.ledger.finish()
        if counts[0].is_empty:
            return None
        times = [[self.placed.time_ps(one, pair) for one in counts] for pair in self.devices]
        return [saved_ratio(placed_ps, alone_ps) for alone_ps, placed_ps in times]


@dataclass
class EventGains:
    """Gains of requests that come at their times and queue: mean response times are compared.

    With `first` each window has a separate kernel, whose queues begin empty.
    """

    plan: Walk
    kernel: WalkKernel | None
    first: WalkKernel | None = None

    def add(self, rows: Rows) -> None:
        """Take the next requests."""
        if self.kernel is None:
            self.kernel = WalkKernel(self.plan, np.arange(2), twin=self.first)
        self.kernel.add(rows)

    def finish(self) -> list[float] | None:
        """Return the gain on each of the devices, None where nothing takes time; begin anew."""
        if self.kernel is None:
            return None
        self.kernel.finish()
        responses, answers = self.kernel.answers_ps()
        self.close()
        if not responses:
            return None
        return [saved_ratio(placed_ps, alone_ps) for alone_ps, placed_ps in answers]

    def close(self) -> None:
        """Free the kernel of a window."""
        if self.first is not None and self.kernel is not None:
            self.kernel.__exit__(None, None, None)
            self.kernel = None


Gains = LedgerGains | EventGains


@contextmanager
def gain_models(placed: Placed) -> Iterator[tuple[Gains, Gains]]:
    """Yield a model of the whole trace, and one of its windows on the first devices only."""
    with ExitStack() as stack:
        if placed.trace.is_open:
            plan = placed.events()
            kernel = stack.enter_context(WalkKernel(plan, np.arange(2)))
            part = EventGains(plan, None, kernel)
            stack.callback(part.close)
            yield EventGains(plan, kernel), part
            return
        on_nvm = placed.on_nvm()
        whole, window = (stack.enter_context(Ledger(on_nvm)) for _ in range(2))
        yield (
            LedgerGains(whole, placed, placed.devices),
            LedgerGains(window, placed, placed.devices[:1]),
        )


@dataclass(frozen=True)
class TriedGains:
    """Gains of the answer's shares: one a changed part, and one a window that has requests."""

    gain_ratio: float  # on the devices as they are
    parts: list[PartGain]
    windows: list[WindowGain]
    cut: Cut
    factors: tuple[float, ...]

    def range(self) -> GainRange:
        """Return the least and the most, over all and by kind."""
        gains = [one.gain_ratio for one in (*self.parts, *self.windows)]
        return GainRange(
            low_ratio=min(gains),
            high_ratio=max(gains),
            factors=list(self.factors),
            cut=self.cut,
            parameter=_ends(self.parts) if self.parts else None,
            window=_ends(self.windows) if self.windows else None,
        )


def _ends(gains: Sequence[Kind]) -> Ends[Kind]:
    least, most = (choose(gains, key=lambda one: one.gain_ratio) for choose in (min, max))
    return Ends(len(gains), least, most)


def try_gains(
    trace: ChargedTrace,
    answer: Answer,
    *,
    coverage: str,
    cut: Cut,
    factors: tuple[float, ...] = FACTORS,
) -> TriedGains | None:
    """Return an answer's gains, from one pass; None where nothing is placed or takes time."""
    if answer.placement == "base":
        return None
    changes = list(variants(trace.devices, factors))
    devices = [trace.devices, *(change.of(trace.devices) for change in changes)]
    with gain_models(Placed(trace, answer.blocks, coverage, devices)) as (whole, part):
        windows = list(_windows(trace.rows(), whole, part, cut))
        gains = whole.finish()
    if gains is None:
        return None
    parts = [
        PartGain(gain, change.device, change.parameter, change.factor)
        for change, gain in zip(changes, gains[1:], strict=True)
    ]
    return TriedGains(gains[0], parts, windows, cut, factors)


def _windows(batches: Iterator[Rows], whole: Gains, part: Gains, cut: Cut) -> Iterator[WindowGain]:
    """Give the whole trace to one model, and yield what the other gains in each window."""
    cutter = Cutter(cut)
    current: int | None = None
    for rows in batches:
        whole.add(rows)
        time_ns = np.where(rows.queue_ns < 0, rows.issue_ns, rows.queue_ns)
        for number, begin, end in cutter.parts(time_ns):
            if current is not None and current != number:
                yield from _finished(part, cutter, current)
            current = number
            part.add(_slice(rows, begin, end))
    yield from _finished(part, cutter, current)


def _finished(part: Gains, cutter: Cutter, number: int | None) -> Iterator[WindowGain]:
    gains = part.finish()
    if gains is not None and number is not None:
        one = cutter.window(number)
        yield WindowGain(gains[0], one.number, one.start_ns, one.end_ns, one.requests)


def _slice(rows: Rows, begin: int, end: int) -> Rows:
    if end - begin == len(rows.request_id):
        return rows
    return Rows(**{one.name: getattr(rows, one.name)[begin:end] for one in fields(Rows)})
