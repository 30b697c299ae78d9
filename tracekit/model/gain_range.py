"""How much a recommendation would gain on other devices, and in each window of the trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from operator import mul
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from tracekit._native import placement as native
from tracekit._native.placement import PLACED_ALL, PLACED_NONE, PLACED_ROLES, PLACED_SOME, Rows
from tracekit.arrow import Integers, batches_of, ints, open_table, row_count
from tracekit.devices import DevicePair, base_cost, device_cost, disk_of
from tracekit.errors import UsageError
from tracekit.model.answer import (
    Answer,
    Cut,
    Ends,
    GainRange,
    Kind,
    PartGain,
    RepeatGain,
    WindowGain,
    saved_ratio,
)
from tracekit.model.block_orders import blocks_in_order, order_blocks
from tracekit.model.changes import changed_devices, variants
from tracekit.model.placement import ChargedTrace, distinct
from tracekit.store import TraceFolder
from tracekit.tables import ROLES
from tracekit.units import HOUR_NS, parse_duration

FACTORS = (0.5, 2.0)
MANY_HOURS_NS = 3 * HOUR_NS
MOST_WINDOWS = 168
DEFAULT_WINDOWS = 8
NOWHERE = -1
CUT_ROWS = 1 << 16
Times = list[tuple[int, int]]
"""Time in ps of the base device alone and of the placement, by pair of devices."""


@dataclass(frozen=True)
class Window:
    """A window, from 1, whose requests come from `start_ns` to before `end_ns`; None: no time."""

    number: int
    start_ns: int | None
    end_ns: int | None
    requests: int


def choose_cut(folder: TraceFolder, wanted: str | None = None) -> Cut:
    """Return how to cut: as wanted, by the hour where a trace lasts three, else 8 of equal counts.

    `wanted` is a number of windows, all of which have as many requests, or how long a window is.
    UsageError unless that makes 1 to 168 windows.
    """
    duration_ns = max(folder.info.clock.duration_ns, 1)
    if wanted is not None and not wanted.strip().isdigit():
        length_ns = parse_duration(wanted, option="--windows")
        if length_ns <= 0:
            raise UsageError("--windows: a window lasts longer than nothing")
        if duration_ns > MOST_WINDOWS * length_ns:
            raise UsageError(
                f"--windows makes more than {MOST_WINDOWS} windows",
                hint=f"choose one of {duration_ns / MOST_WINDOWS / 1e9:,.3g}s or longer",
            )
        return Cut(length_ns=length_ns)
    if wanted is None and duration_ns >= MANY_HOURS_NS:
        return Cut(length_ns=max(HOUR_NS, -(-duration_ns // MOST_WINDOWS)))
    count = DEFAULT_WINDOWS if wanted is None else int(wanted)
    if not 0 < count <= MOST_WINDOWS:
        raise UsageError(
            f"--windows {count}: not between 1 and {MOST_WINDOWS}",
            hint="write a number of windows, or how long one is, such as 10min",
        )
    rows = row_count(folder.require("requests", made_by="parse"))
    return Cut(requests=max(-(-rows // count), 1))


@dataclass
class Cutter:
    """Says in which window each request is, batch by batch; times are those of queueing or issue.

    By time, a request before one that came earlier in the table is in that one's window, and one
    without a time is left out.
    """

    cut: Cut
    timeless: int = 0
    _rows: int = 0
    _number: int = 0
    _times: dict[int, tuple[int, int]] = field(default_factory=dict)
    _counts: dict[int, int] = field(default_factory=dict)

    def parts(self, time_ns: Integers) -> Iterator[tuple[int, int, int]]:
        """Yield (window from 0, first row, row after its last) for a batch; times -1: unknown."""
        numbers = self._numbers(time_ns)
        edges = np.flatnonzero(np.diff(numbers)) + 1
        for begin, end in zip([0, *edges.tolist()], [*edges.tolist(), len(numbers)], strict=True):
            number = int(numbers[begin]) if end > begin else NOWHERE
            if number == NOWHERE:
                continue
            known = time_ns[begin:end][time_ns[begin:end] >= 0]
            if len(known):
                low, high = self._times.get(number, (int(known.min()), 0))
                ends = min(low, int(known.min())), max(high, int(known.max()) + 1)
                self._times[number] = ends
            self._counts[number] = self._counts.get(number, 0) + end - begin
            yield number, begin, end

    def _numbers(self, time_ns: Integers) -> Integers:
        if self.cut.length_ns is None:
            rows = self._rows + np.arange(len(time_ns))
            self._rows += len(time_ns)
            return rows // (self.cut.requests or 1)
        is_known = time_ns >= 0
        self.timeless += int(np.count_nonzero(~is_known))
        found = np.where(is_known, time_ns // self.cut.length_ns, self._number)
        found = np.maximum.accumulate(np.maximum(found, self._number))
        self._number = int(found[-1]) if len(found) else self._number
        return np.where(is_known, found, NOWHERE)

    def window(self, number: int) -> Window:
        """Return a window as far as its requests have been seen."""
        length_ns = self.cut.length_ns
        if length_ns is not None:
            ends: tuple[int | None, int | None] = number * length_ns, (number + 1) * length_ns
        else:
            ends = self._times.get(number, (None, None))
        return Window(number + 1, *ends, self._counts[number])


@contextmanager
def windows(folder: TraceFolder, cut: Cut) -> Iterator[tuple[list[tuple[Window, Path]], int]]:
    """Yield the windows that have requests, and how many requests without a time are left out.

    A request belongs to the window in which it was queued, or else issued; one that was merged into
    a request of another window is charged there on its own. Tables lie beside the trace and go.
    """
    requests = folder.require("requests", made_by="parse")
    cutter = Cutter(cut)
    with TemporaryDirectory(prefix=f".{folder.path.name}.", dir=folder.path.parent) as place:
        files: dict[int, Path] = {}
        with open_table(requests) as source, ExitStack() as stack:
            writers: dict[int, Any] = {}
            for batch in batches_of(source, rows=CUT_ROWS):
                queued, issued = (
                    ints(batch.column(name), if_null=NOWHERE) for name in ("queue_ns", "issue_ns")
                )
                known = np.where(queued == NOWHERE, issued, queued)
                for number, begin, end in cutter.parts(known):
                    if number not in writers:
                        files[number] = Path(place) / f"{number}.parquet"
                        writers[number] = stack.enter_context(
                            pq.ParquetWriter(files[number], source.schema_arrow, compression="zstd")
                        )
                    writers[number].write_batch(batch.slice(begin, end - begin))
        found = [(cutter.window(number), files[number]) for number in sorted(files)]
        yield found, cutter.timeless


@dataclass(frozen=True)
class Placed:
    """A placement, so many blocks of each role on NVM, and the devices that it is tried on."""

    trace: ChargedTrace
    shares: Mapping[str, int]
    coverage: str
    devices: Sequence[DevicePair]  # first those that the recommendation was made for

    @property
    def disks(self) -> tuple[native.Disk, ...]:
        """Each disk once that is the base device of a pair."""
        disks = (disk_of(pair.base) for pair in self.devices)
        return tuple(dict.fromkeys(disk for disk in disks if disk is not None))

    def on_nvm(self) -> native.LedgerSetup:
        """Return which blocks are on NVM, as the ledger takes them."""
        touched = self.trace.touched
        # Where nothing is placed no block need be looked up.
        keys = touched.keys if any(self.shares.values()) else touched.keys[:0]
        role_of = np.zeros(len(keys), np.uint8)
        parts = [PLACED_NONE] * len(ROLES)
        for index, role in enumerate(ROLES[:PLACED_ROLES]):
            if count := self.shares.get(role, 0):
                order = blocks_in_order(touched, role, coverage=self.coverage)
                role_of[order[:count]] = index + 1
                if len(order):
                    parts[index] = PLACED_ALL if count >= len(order) else PLACED_SOME
        is_issued = self.trace.is_issued
        return native.LedgerSetup(
            keys, role_of, touched.devices, tuple(parts), is_issued, self.disks
        )

    def time_ps(self, counts: native.Counts, devices: DevicePair) -> int:
        """Return what counted requests take on devices, to the picosecond.

        Each part of a request costs its device's latency, or what continuing costs it, and its
        transfer; a flush of a role that is on both devices costs both. A moving head costs its
        positions, and every part on that disk what continuing does.
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
            total += sum(map(mul, counts.flushes[which], devices.flush_ps[which]))
        disk = disk_of(devices.base)
        return total + (0 if disk is None else counts.position_ps[self.disks.index(disk)])

    def events(self) -> native.SimulationSetup:
        """Return the base alone and the placement as an event simulation takes them."""
        points = distinct([0, *self.shares.values()])
        scenarios = np.zeros(2, np.dtype(native.SCENARIO))
        scenarios["order"] = (
            native.HOTTEST,
            native.HOTTEST if self.coverage == "hottest" else native.START,
        )
        for role, blocks in self.shares.items():
            if blocks:
                limit = int(np.searchsorted(points, blocks)) + 1
                scenarios["limit"][1, ROLES.index(role)] = limit
        others = tuple(
            native.Prices(
                base_cost(pair.base), device_cost(pair.nvm), disk_of(pair.base), pair.flush_ps
            )
            for pair in self.devices[1:]
        )
        ordered = order_blocks(self.trace.touched, points)
        return self.trace.simulation(ordered, scenarios, others=others)


@dataclass
class LedgerTimes:
    """Times of requests one after the other: their parts are counted and then priced."""

    ledger: native.Ledger
    placed: Placed
    devices: Sequence[DevicePair]
    responses = 1

    def add(self, rows: Rows) -> None:
        """Take the next requests."""
        self.ledger.add(rows)

    def finish(self) -> Times | None:
        """Return the times on each of the devices, None where nothing takes time; begin anew."""
        alone, placed = self.ledger.finish()
        if alone.is_empty:
            return None
        time_ps = self.placed.time_ps
        return [(time_ps(alone, pair), time_ps(placed, pair)) for pair in self.devices]


@dataclass
class EventTimes:
    """Response times of requests that come at their times and queue.

    With `first` each window has a separate kernel, whose queues begin empty.
    """

    plan: native.SimulationSetup
    kernel: native.SimulationKernel | None
    first: native.SimulationKernel | None = None
    responses: int = 0

    def add(self, rows: Rows) -> None:
        """Take the next requests."""
        if self.kernel is None:
            self.kernel = native.SimulationKernel(self.plan, np.arange(2), twin=self.first)
        self.kernel.add(rows)

    def finish(self) -> Times | None:
        """Return the sums on each of the devices, None where nothing takes time; begin anew."""
        if self.kernel is None:
            return None
        self.kernel.finish()
        self.responses, sums = self.kernel.answers_ps()
        self.close()
        return [(alone_ps, placed_ps) for alone_ps, placed_ps in sums] if self.responses else None

    def close(self) -> None:
        """Free the kernel of a window."""
        if self.first is not None and self.kernel is not None:
            self.kernel.__exit__(None, None, None)
            self.kernel = None


Model = LedgerTimes | EventTimes


@contextmanager
def _models(placed: Placed) -> Iterator[tuple[Model, Model]]:
    """Yield a model of the whole trace, and one of its windows on the first devices only."""
    with ExitStack() as stack:
        if placed.trace.is_open:
            plan = placed.events()
            kernel = stack.enter_context(native.SimulationKernel(plan, np.arange(2)))
            part = EventTimes(plan, None, kernel)
            stack.callback(part.close)
            yield EventTimes(plan, kernel), part
            return
        on_nvm = placed.on_nvm()
        whole, window = (stack.enter_context(native.Ledger(on_nvm)) for _ in range(2))
        yield (
            LedgerTimes(whole, placed, placed.devices),
            LedgerTimes(window, placed, placed.devices[:1]),
        )


@dataclass(frozen=True)
class TriedGains:
    """Gains of the answer's shares: one a changed part, a window that has requests, and a
    measurement of the devices."""

    gain_ratio: float  # on the devices as they are
    parts: list[PartGain]
    windows: list[WindowGain]
    cut: Cut
    factors: tuple[float, ...]
    repeats: list[RepeatGain]

    def range(self) -> GainRange:
        """Return the least and the most, over all and by kind."""
        gains = [one.gain_ratio for one in (*self.parts, *self.windows, *self.repeats)]
        return GainRange(
            low_ratio=min(gains),
            high_ratio=max(gains),
            factors=list(self.factors),
            cut=self.cut,
            parameter=_ends(self.parts) if self.parts else None,
            window=_ends(self.windows) if self.windows else None,
            repeat=_ends(self.repeats) if self.repeats else None,
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
    changed = (changed_devices(trace.devices, change) for change in changes)
    devices = [trace.devices, *changed, *trace.devices.measured]
    with _models(Placed(trace, answer.blocks, coverage, devices)) as (whole, part):
        windows = list(_windows(trace.rows(), whole, part, cut))
        times = whole.finish()
    if times is None:
        return None
    gain, *gains = (saved_ratio(placed_ps, alone_ps) for alone_ps, placed_ps in times)
    parts = [
        PartGain(one, str(change.device), change.parameter, change.factor)
        for change, one in zip(changes, gains, strict=False)
    ]
    repeats = [RepeatGain(one, number) for number, one in enumerate(gains[len(changes) :], 1)]
    return TriedGains(gain, parts, windows, cut, factors, repeats)


def placement_ps(
    trace: ChargedTrace, shares: Mapping[str, int], *, coverage: str
) -> tuple[int, int]:
    """Return the time in ps on the base alone, and with so many blocks of each role on NVM.

    With queueing it is the mean response time.
    """
    with _models(Placed(trace, shares, coverage, [trace.devices])) as (whole, _):
        for rows in trace.rows():
            whole.add(rows)
        times = whole.finish()
    alone_ps, placed_ps = times[0] if times else (0, 0)
    return alone_ps // max(whole.responses, 1), placed_ps // max(whole.responses, 1)


def _windows(batches: Iterator[Rows], whole: Model, part: Model, cut: Cut) -> Iterator[WindowGain]:
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
            part.add(Rows(**{name: column[begin:end] for name, column in vars(rows).items()}))
    yield from _finished(part, cutter, current)


def _finished(part: Model, cutter: Cutter, number: int | None) -> Iterator[WindowGain]:
    times = part.finish()
    if times is not None and number is not None:
        alone_ps, placed_ps = times[0]
        one = cutter.window(number)
        gain = saved_ratio(placed_ps, alone_ps)
        yield WindowGain(gain, one.number, one.start_ns, one.end_ns, one.requests)
