"""What users would feel: elapsed time, throughput and response times, of the base and the answer.

Requests arrive at their traced times (open), or each process asks again when it has its answer and
has thought as long as in the trace (closed). On a base device that was fitted from the trace each
request takes what it took there; elsewhere what the profiles say, of whose distributions a time is
drawn. See `replayer/model/response_times.h`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit._native.placement import (
    PLACED_ALL,
    PLACED_NONE,
    PLACED_ROLES,
    READ,
    WRITE,
    LedgerSetup,
    ResponseJobs,
    response_times,
)
from tracekit.arrow import Floats, Integers
from tracekit.devices import DevicePair, Profile, device_cost, finds_writes, flush_cost
from tracekit.metadata import Record
from tracekit.model.placement import distinct
from tracekit.model.service_times import (
    FITTED,
    LEAST_REQUESTS,
    BaseFit,
    ServiceTimes,
    quantile,
    scaled,
)
from tracekit.model.timed_requests import Flags, Sample, TimedRequests, continues
from tracekit.tables import ROLE_NAMES, ROLES
from tracekit.units import MIB, PS_PER_NS, PS_PER_US, SECTOR_BYTES, format_duration

BLOCK_SECTORS = 8
NONE = -1
LEAST_WINDOW, WINDOWS = 20, 8
QUANTILES = {"p50_ns": 0.5, "p99_ns": 0.99, "p999_ns": 0.999}
MIX = np.uint64(0x9E3779B97F4A7C15)


class Spread(Record):
    """A number, and between which it lies on other devices and in the windows of the trace."""

    value: float
    low: float
    high: float


class RoleResponse(Record):
    """Response times of a role's requests."""

    role: str
    requests: int
    p50_ns: Spread
    p99_ns: Spread
    p999_ns: Spread


class Felt(Record):
    """What users feel of one placement."""

    elapsed_ns: Spread
    requests_per_s: Spread
    mib_per_s: Spread
    roles: list[RoleResponse]


class Loop(Record):
    """The base device alone, and the answer."""

    base: Felt
    answer: Felt


class Predictions(Record):
    """What users would feel, with requests as traced and in a closed loop."""

    requests: int
    is_whole: bool
    """Whether all requests were simulated; else a sample, whose elapsed time is scaled."""
    traced: list[RoleResponse]
    """As traced, from queued to completed; the spread is that of the windows."""
    traced_elapsed_ns: int
    open: Loop
    closed: Loop


@dataclass(frozen=True)
class Extent:
    """What of each request is on a device: sectors, the first and the end; whether it goes on."""

    sectors: Integers
    continues: Flags


def divide(requests: TimedRequests, placed: LedgerSetup) -> tuple[Extent, Extent]:
    """Return what of each request is on the base device and what on NVM, each with one head.

    Where a request begins and ends on the same device, with a part of the other between, that part
    counts as in its place, and the other as at the request's end.
    """
    known = placed.devices[requests.device]
    shift = known["first_key"] - known["first_block"]
    end = requests.sector + requests.sectors
    sectors, nvm_begin, nvm_end = np.zeros_like(end), end.copy(), end.copy()
    for role in range(PLACED_ROLES):
        mine = np.flatnonzero(requests.is_data & (requests.role == role))
        keys = placed.keys[placed.on_nvm == role + 1]
        first = requests.sector[mine] // BLOCK_SECTORS + shift[mine]
        last = (end[mine] - 1) // BLOCK_SECTORS + shift[mine]
        low, high = np.searchsorted(keys, first), np.searchsorted(keys, last, side="right")
        rows, low, high = (part[high > low] for part in (mine, low, high))
        begin = (keys[low] - shift[rows]) * BLOCK_SECTORS
        done = (keys[high - 1] + 1 - shift[rows]) * BLOCK_SECTORS
        # Of the first and the last block a request may have a part only.
        nvm_begin[rows] = np.maximum(begin, requests.sector[rows])
        nvm_end[rows] = np.minimum(done, end[rows])
        cut = nvm_begin[rows] - begin + done - nvm_end[rows]
        sectors[rows] = (high - low) * BLOCK_SECTORS - cut
    is_leading = (sectors > 0) & (nvm_begin == requests.sector)
    is_trailing = (sectors > 0) & (nvm_end == end) & ~is_leading
    base_begin = np.where(is_leading, nvm_end, requests.sector)
    base_end = np.where(is_trailing, nvm_begin, end)
    return (
        _extent(requests, requests.sectors - sectors, base_begin, base_end),
        _extent(requests, sectors, nvm_begin, nvm_end),
    )


def _extent(requests: TimedRequests, sectors: Integers, begin: Integers, end: Integers) -> Extent:
    """Return what a device has of each request, and whether that goes on where its head is."""
    served = requests.is_data & (sectors > 0)
    return Extent(sectors * served, continues(requests, served, first=begin, end=end))


def modelled_ps(requests: TimedRequests, extent: Extent, *, device: Profile) -> Integers:
    """Return what a device takes for what it has of each request by its profile, on average."""
    cost, op = device_cost(device), (requests.action == WRITE).astype(np.int64)
    fresh, joined = np.array(cost.latency_ps)[op], np.array(cost.sequential_ps)[op]
    found = np.where(extent.continues, joined, fresh)
    found += extent.sectors * np.array(cost.sector_ps)[op] + requests.is_fua * cost.fua_ps
    return np.where(extent.sectors > 0, found, 0)


def flushes_with_writes(
    requests: TimedRequests, extent: Extent, *, is_flushed: Flags, place: NDArray[Any]
) -> Flags:
    """Say which flushes find something to flush in their place."""
    writes = (extent.sectors > 0) & (requests.action == WRITE) & ~requests.is_fua
    found = np.zeros(len(requests), bool)
    for one in np.unique(place):
        rows = np.flatnonzero(place == one)
        found[rows] = finds_writes(is_flushed[rows], writes[rows])
    return found


def drawn_ps(requests: TimedRequests, mean_ps: Integers, *, device: Profile) -> Integers:
    """Return times of which the setups are drawn from the profile's distributions."""
    found = mean_ps.copy()
    number = np.arange(len(found), dtype=np.uint64) * MIX
    number = (number ^ (number >> np.uint64(29))) * MIX
    chance = (number >> np.uint64(11)) / float(1 << 53)
    for op, name in ((READ, "read"), (WRITE, "write")):
        quantiles = device.setup_quantiles_us(name)
        mine = np.flatnonzero((requests.action == op) & (mean_ps > 0))
        if quantiles is None or not len(mine):
            continue
        shares, times_us = np.array(quantiles).T
        setup_us = np.exp(np.interp(chance[mine], shares, np.log(times_us)))
        mean_us = float(getattr(device, f"{name}_setup_us"))
        found[mine] += ((setup_us - mean_us) * PS_PER_US).astype(np.int64)
    return np.maximum(found, 0)


@dataclass(frozen=True)
class Load:
    """The requests of a sample as they arrived, and what each takes on the base device alone."""

    requests: TimedRequests
    alone: Extent
    data_ps: Integers
    flush_ps: Integers  # of a flush or preflush, else 0
    has_writes: Flags  # such a one finds something to flush
    mean_ps: Integers  # of the data by the profile
    arrival_ns: Integers
    done_ns: Integers

    @classmethod
    def of(cls, requests: TimedRequests, base: Profile, fit: BaseFit) -> Load:
        """Take traced times where the base device was fitted from them, else its profile's."""
        requests = requests.where(np.argsort(requests.queue_ns, kind="stable"))
        alone = _extent(
            requests, requests.sectors, requests.sector, requests.sector + requests.sectors
        )
        mean_ps = modelled_ps(requests, alone, device=base)
        is_flushed = requests.is_preflush | ~requests.is_data
        has_writes = flushes_with_writes(
            requests, alone, is_flushed=is_flushed, place=requests.device
        )
        flush_ps = is_flushed * np.array(flush_cost(base))[has_writes.astype(int)]
        data_ps = drawn_ps(requests, mean_ps, device=base)
        if fit.kind == FITTED:
            known = np.flatnonzero(requests.is_timed)
            times = ServiceTimes.of(requests.where(known))
            took_ps = (times.data_us * PS_PER_US).astype(np.int64)
            is_data = requests.is_data[known]
            data_ps[known] = np.where(is_data, took_ps, 0)
            flush_ps[known] = np.where(is_data, times.preflush_us * PS_PER_US, took_ps)
        arrival_ns = requests.queue_ns - int(requests.queue_ns[:1].min(initial=0))
        done_ns = np.maximum(requests.end_ns - requests.queue_ns, 0) + arrival_ns
        return cls(requests, alone, data_ps, flush_ps, has_writes, mean_ps, arrival_ns, done_ns)

    def jobs(self, placed: LedgerSetup | None, devices: DevicePair) -> ResponseJobs:
        """Return what each takes on both devices, with these blocks on NVM; None: nothing."""
        nothing = np.full(len(self.data_ps), NONE, np.int64)
        base_ps, nvm_ps = self.data_ps + self.flush_ps, nothing
        if placed is not None:
            base_ps, nvm_ps = self._placed(placed, devices)
        stream = np.searchsorted(distinct([self.requests.stream]), self.requests.stream)
        return ResponseJobs(
            self.arrival_ns, self.done_ns, stream, self.requests.device, base_ps, nvm_ps
        )

    def _placed(self, placed: LedgerSetup, devices: DevicePair) -> tuple[Integers, Integers]:
        base, nvm = divide(self.requests, placed)
        rest_ps = modelled_ps(self.requests, base, device=devices.base)
        # What stays on the base device takes as much less than it took as the profile says.
        ratio = rest_ps / np.maximum(self.mean_ps, 1)
        base_ps = np.where(rest_ps == self.mean_ps, self.data_ps, self.data_ps * ratio)
        nvm_mean_ps = modelled_ps(self.requests, nvm, device=devices.nvm)
        nvm_ps = drawn_ps(self.requests, nvm_mean_ps, device=devices.nvm)
        kind = np.array(placed.placed)[self.requests.role]
        is_flushed = self.requests.is_preflush | ~self.requests.is_data
        to_base, to_nvm = is_flushed & (kind != PLACED_ALL), is_flushed & (kind != PLACED_NONE)
        base_has_writes = flushes_with_writes(
            self.requests, base, is_flushed=to_base, place=self.requests.device
        )
        nvm_has_writes = flushes_with_writes(
            self.requests, nvm, is_flushed=to_nvm, place=np.zeros(len(to_nvm))
        )
        cost_ps, nvm_cost_ps = (np.array(one) for one in devices.flush_ps)
        before_ps, now_ps = (cost_ps[one.astype(int)] for one in (self.has_writes, base_has_writes))
        # A flush that finds other than it found alone takes as much less or more than it took.
        ratio = np.where(base_has_writes == self.has_writes, 1.0, now_ps / np.maximum(before_ps, 1))
        is_new = (before_ps == 0) & (now_ps > 0)
        base_ps = base_ps + to_base * np.where(is_new, now_ps, self.flush_ps * ratio)
        nvm_ps = nvm_ps + to_nvm * nvm_cost_ps[nvm_has_writes.astype(int)]
        return (
            np.where((base.sectors > 0) | to_base, base_ps, NONE).astype(np.int64),
            np.where((nvm.sectors > 0) | to_nvm, nvm_ps, NONE).astype(np.int64),
        )


@dataclass(frozen=True)
class Times:
    """Response times by request, and how long the requests took, all in ns."""

    response_ns: Floats
    begin_ns: Floats
    end_ns: Floats

    @classmethod
    def of(cls, jobs: ResponseJobs, servers: tuple[int, int], *, is_closed: bool) -> Times:
        """Simulate requests."""
        response_ps, done_ps = response_times(jobs, servers=servers, is_closed=is_closed)
        return cls(
            response_ps / PS_PER_NS, (done_ps - response_ps) / PS_PER_NS, done_ps / PS_PER_NS
        )

    @property
    def elapsed_ns(self) -> float:
        """The time from the first arrival to the last end."""
        return float(self.end_ns.max() - self.begin_ns.min())

    def steps_ns(self, windows: Sequence[slice]) -> list[float]:
        """Return by how much each window's last end is later than all before it."""
        reached = [float(self.end_ns[: one.stop].max(initial=0)) for one in windows]
        return [end - begin for begin, end in pairwise([float(self.begin_ns.min()), *reached])]


def spread(value: float, others: Iterable[float]) -> Spread:
    """Return a value with the range of what it is elsewhere."""
    found = [value, *others]
    return Spread(value=value, low=min(found), high=max(found))


def role_responses(
    roles: NDArray[np.uint8], times: Sequence[Floats], *, windows: Sequence[slice]
) -> list[RoleResponse]:
    """Return each role's response times: of the first, its windows, and of the others."""
    found = []
    for index, role in enumerate(ROLES):
        mine = roles == index
        if not mine.any():
            continue
        parts = [times[0][window][mine[window]] for window in windows]
        ordered = [np.sort(one[mine]) for one in times]
        ordered += [np.sort(part) for part in parts if len(part) >= LEAST_WINDOW]
        spreads = {
            name: spread(*_first([quantile(one, share) for one in ordered]))
            for name, share in QUANTILES.items()
        }
        found.append(RoleResponse(role=role, requests=int(mine.sum()), **spreads))
    return found


def _first(values: list[float]) -> tuple[float, list[float]]:
    return values[0], values[1:]


def felt(
    load: Load, times: Sequence[Times], *, base: Times, windows: Sequence[slice], requests: int
) -> Felt:
    """Return what users feel: of the first times, with those of other devices as its spread.

    The spread over windows of elapsed times is that of what they are of the base device's.
    """
    scale = requests / max(len(load.requests), 1)
    elapsed = [one.elapsed_ns * scale for one in times]
    parts = zip(times[0].steps_ns(windows), base.steps_ns(windows), strict=True)
    elapsed += [base.elapsed_ns * scale * took / of for took, of in parts if of > 0]
    moved_mib = float(load.requests.sectors[load.requests.is_data].sum()) * SECTOR_BYTES / MIB
    seconds = [max(one, 1.0) / 1e9 for one in elapsed]
    return Felt(
        elapsed_ns=spread(*_first(elapsed)),
        requests_per_s=spread(*_first([requests / one for one in seconds])),
        mib_per_s=spread(*_first([moved_mib * scale / one for one in seconds])),
        roles=role_responses(
            load.requests.role, [one.response_ns for one in times], windows=windows
        ),
    )


def predict(
    sample: Sample,
    fit: BaseFit,
    *,
    devices: DevicePair,
    placed: LedgerSetup,
    factors: Sequence[float],
) -> Predictions | None:
    """Return what users would feel with these blocks on NVM; None where requests have no times.

    The spread is that of the trace's windows, and of what each measurement of the devices found;
    where they were measured once, of NVM that takes `factors` times as long.
    """
    queued = sample.requests.where(sample.requests.queue_ns >= 0)
    if len(queued) < LEAST_REQUESTS or int(np.ptp(queued.queue_ns)) == 0:
        return None
    load = Load.of(queued, devices.base, fit)
    # Traced times are parts of the device's time: it serves them one by one.
    servers = (1, devices.servers[1]) if fit.kind == FITTED else devices.servers
    measured = [(Load.of(queued, pair.base, fit), pair) for pair in devices.measured]
    alone = [one.jobs(None, pair) for one, pair in [(load, devices), *measured]]
    near = measured or [(load, pair) for pair in _scaled(devices, factors)]
    jobs = [one.jobs(placed, pair) for one, pair in [(load, devices), *near]]

    def loop(*, is_closed: bool) -> Loop:
        base = [Times.of(one, servers, is_closed=is_closed) for one in alone]
        answer = [Times.of(one, servers, is_closed=is_closed) for one in jobs]
        edges = np.linspace(0, len(queued), WINDOWS + 1).astype(int).tolist()
        shared: dict[str, Any] = {"base": base[0], "requests": sample.charged}
        shared["windows"] = [slice(*pair) for pair in pairwise(edges)]
        return Loop(base=felt(load, base, **shared), answer=felt(load, answer, **shared))

    return Predictions(
        requests=sample.charged,
        is_whole=sample.is_whole,
        traced=traced_responses(load.requests),
        traced_elapsed_ns=max(sample.end_ns - sample.begin_ns, 0) if sample.timed else 0,
        open=loop(is_closed=False),
        closed=loop(is_closed=True),
    )


def traced_responses(requests: TimedRequests) -> list[RoleResponse]:
    """Return how long requests took in the trace, from queued to completed."""
    known = requests.where(requests.is_timed)
    took_ns = (known.end_ns - known.queue_ns).astype(np.float64)
    return role_responses(known.role, [took_ns], windows=[])


def _scaled(devices: DevicePair, factors: Sequence[float]) -> Iterator[DevicePair]:
    """Yield the devices with an NVM of which all takes so many times as long."""
    for factor in factors:
        yield devices._replace(nvm=scaled(devices.nvm, factor))


def sentence(found: Predictions) -> str:
    """Return what the headline says: the closed loop's pace, and p99 with arrivals as traced."""
    base, answer = found.closed.base, found.closed.answer
    pace = (
        f"In a closed loop the load takes {_lies(answer.elapsed_ns)} instead of"
        f" {format_duration(base.elapsed_ns.value)}, {answer.requests_per_s.value:,.0f} requests/s"
        f" instead of {base.requests_per_s.value:,.0f}"
    )
    tails = [
        f"{_lies(placed.p99_ns)} instead of {format_duration(alone.p99_ns.value)}"
        f" ({ROLE_NAMES[placed.role]})"
        for alone, placed in zip(found.open.base.roles, found.open.answer.roles, strict=True)
    ]
    return f"{pace}; with arrivals as traced, 99% of the responses come within {', '.join(tails)}."


def _lies(found: Spread) -> str:
    low, high = format_duration(found.low), format_duration(found.high)
    text = format_duration(found.value)
    return text if low == high else f"{text} ({low} to {high})"
