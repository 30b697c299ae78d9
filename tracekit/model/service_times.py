"""Service times of a trace's requests, and the device profile that is fitted to them.

A request's service time is its part of the time in which its device had requests in flight, which
those in flight share equally; for one that was alone it is the time from issue to completion.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from tracekit._native.placement import READ
from tracekit.arrow import Floats
from tracekit.devices import LIMITS, MAX_PARALLELISM, Profile, Quantiles, mean_of
from tracekit.metadata import Record
from tracekit.model.placement import distinct
from tracekit.model.timed_requests import Flags, TimedRequests, busy_shares, continues
from tracekit.units import BLOCK_BYTES, MIB, SECTOR_BYTES, format_duration

TRACED, ASSUMED = "trace", "hdd-7200"
FITTED, GUESSED, GIVEN = "fitted", "assumed", "given"
LEAST_REQUESTS = 30
LEAST_US, NS_PER_US = 0.001, 1e3
TRIMMED = 20
"""One of so many of the shortest and of the longest times does not decide a transfer rate."""
PROBABILITIES = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1)
ROUNDING = 1e-6  # so that what continues is never dearer than what does not
MOST_MIB_S = float(LIMITS["read_mib_s"][1])


class ClassTimes(Record):
    """Service times of one kind of request: as traced, and on average as fitted."""

    name: str
    requests: int
    mean_us: float
    p50_us: float
    p99_us: float
    fitted_us: float


class BaseFit(Record, kw_only=True):
    """Where the base device is from: fitted, assumed or given, and how good the fit is."""

    kind: str
    reason: str | None = None
    """Why the trace's own times do not do."""
    requests: int = 0
    timed_requests: int = 0
    busy_ns: int = 0
    """In which a device of the trace had a request in flight, added up over devices."""
    span_ns: int = 0
    """From the first request to the last completion."""
    factor: float = 1.0
    """By which all fitted times are multiplied, so that the model takes the time of the trace."""
    explained_ratio: float | None = None
    """R squared: which part of the variance of the times size and sequence explain."""
    classes: list[ClassTimes] = msgspec.field(default_factory=list)

    @property
    def sentence(self) -> str | None:
        """What the headline says of it; nothing of a device that was asked for."""
        if self.kind == GUESSED:
            return f"The base device is assumed, a {ASSUMED}: {self.reason}; choose one by --base."
        if self.kind == GIVEN:
            return None
        missing = 1 - self.timed_requests / max(self.requests, 1)
        lacking = f" (completions of {missing:.1%} of the requests are missing)" if missing else ""
        return (
            f"The base device is the traced disk itself, busy for {format_duration(self.busy_ns)}"
            f" of {format_duration(self.span_ns)}{lacking}."
        )


@dataclass(frozen=True)
class ServiceTimes:
    """Requests whose times are known, and what each took of its device's time, in us."""

    requests: TimedRequests
    data_us: Floats  # from issue to completion; of a flush all of it
    preflush_us: Floats
    is_alone: Flags  # nothing else was in flight with it
    continues: Flags

    @classmethod
    def of(cls, requests: TimedRequests) -> ServiceTimes:
        """Work them out; a preflush and the data after it are two jobs."""
        before = np.flatnonzero(requests.is_preflush)
        device = np.concatenate([requests.device, requests.device[before]])
        begin = np.concatenate([requests.issue_ns, requests.begin_ns[before]])
        end = np.concatenate([requests.end_ns, requests.issue_ns[before]])
        shares_ns = busy_shares(device, begin, end_ns=end)
        count = len(requests)
        preflush_us = np.zeros(count)
        preflush_us[before] = shares_ns[count:] / NS_PER_US
        lasted_ns = requests.end_ns - requests.issue_ns
        data_us = shares_ns[:count] / NS_PER_US
        _divide(requests, data_us, preflush_us)
        return cls(
            requests,
            data_us,
            preflush_us,
            shares_ns[:count] >= lasted_ns - 1,
            continues(
                requests,
                requests.is_data,
                first=requests.sector,
                end=requests.sector + requests.sectors,
            ),
        )

    @property
    def flushes_us(self) -> Floats:
        """What flushes take, alone and before data."""
        alone, before = ~self.requests.is_data, self.requests.is_preflush
        return np.concatenate([self.data_us[alone], self.preflush_us[before]])

    @property
    def bytes(self) -> Floats:
        """What each moves."""
        return self.requests.sectors.astype(np.float64) * SECTOR_BYTES


def _divide(requests: TimedRequests, data_us: Floats, preflush_us: Floats) -> None:
    """Take from writes of which nobody saw when the preflush ended what a flush alone takes.

    So it is of devices without a queue, such as those of the device mapper.
    """
    unseen = requests.is_preflush & (requests.begin_ns == requests.issue_ns)
    alone = ~requests.is_data
    if unseen.any() and alone.any():
        preflush_us[unseen] = np.minimum(data_us[alone].mean(), data_us[unseen])
        data_us[unseen] -= preflush_us[unseen]


@dataclass(frozen=True)
class _Costs:
    """What each request costs by the fit, in us; a flush counts nothing here."""

    setup_us: tuple[float, float]  # of reads and writes
    byte_us: tuple[float, float]
    sequential_us: float | None
    fua_us: float
    flush_us: float

    def of(self, times: ServiceTimes) -> Floats:
        """Return the costs of requests."""
        is_read, is_fua = times.requests.action == READ, times.requests.is_fua
        setup = np.where(is_read, *self.setup_us)
        if self.sequential_us is not None:
            setup = np.where(times.continues, self.sequential_us, setup)
        found = setup + times.bytes * np.where(is_read, *self.byte_us) + is_fua * self.fua_us
        return np.asarray(found * times.requests.is_data, np.float64)


def fit_shape(times: ServiceTimes) -> tuple[Profile, list[ClassTimes], float | None]:
    """Return a profile with each mean as traced, the times by kind, and R squared of the fit."""
    data = times.requests.is_data
    costs = _fit_costs(times)
    fitted_us = costs.of(times)
    (read_us, write_us), (read_rate, write_rate) = costs.setup_us, costs.byte_us
    shape = Profile(
        name=TRACED,
        about="the traced disk, fitted from the trace's own service times",
        read_latency_us=read_us + BLOCK_BYTES * read_rate,
        write_latency_us=write_us + BLOCK_BYTES * write_rate,
        read_mib_s=min(1e6 / MIB / max(read_rate, 1e-12), MOST_MIB_S),
        write_mib_s=min(1e6 / MIB / max(write_rate, 1e-12), MOST_MIB_S),
        flush_us=costs.flush_us,
        fua_us=costs.fua_us,
        price_per_gb=1.0,
        sequential_setup_us=costs.sequential_us,
        read_quantiles_us=_quantiles(times, 0, fitted_us, read_us + BLOCK_BYTES * read_rate),
        write_quantiles_us=_quantiles(times, 1, fitted_us, write_us + BLOCK_BYTES * write_rate),
    )
    explained = _explained(times.data_us[data], fitted_us[data])
    return shape, list(_classes(times, fitted_us)), explained


def _fit_costs(times: ServiceTimes) -> _Costs:
    data, is_fua = times.requests.is_data, times.requests.is_fua
    found = [_fit_operation(times, _prefer(_of_operation(times, op), ~is_fua)) for op in (0, 1)]
    setups, rates = ((pair[0], pair[1]) for pair in zip(*found, strict=True))
    plain = _Costs(setups, rates, None, 0.0, 0.0)
    joined, forced, flushes = data & times.continues & ~is_fua, data & is_fua, times.flushes_us
    rest_us = times.data_us - plain.of(times)
    sequential_us = None
    if joined.any():
        # Of what continues: what it takes less than its operation's setup, from that setup.
        setup_us = np.where(times.requests.action == READ, *setups) + rest_us
        least_us = min(setups) * (1 - ROUNDING)
        sequential_us = min(max(float(setup_us[joined].mean()), 0.0), least_us)
    fitted = replace(plain, sequential_us=sequential_us)
    rest_us = times.data_us - fitted.of(times)
    fua_us = max(float(rest_us[forced].mean()), 0.0) if forced.any() else 0.0
    flush_us = float(flushes.mean()) if len(flushes) else 0.0
    return replace(fitted, fua_us=fua_us, flush_us=flush_us)


def _of_operation(times: ServiceTimes, op: int) -> Flags:
    """Return the reads (0) or writes (1); where a trace has only the others, these."""
    data = times.requests.is_data
    return _prefer(data, times.requests.action == op)


def _prefer(mine: Flags, better: Flags) -> Flags:
    """Return those of `mine` that are `better`, or all where none is."""
    return mine & better if (mine & better).any() else mine


def _fit_operation(times: ServiceTimes, mine: Flags) -> tuple[float, float]:
    """Return what comes before the transfer, in us, and us a byte, of some requests."""
    both = [mine & times.continues, mine & ~times.continues]
    groups = [(times.bytes[group], times.data_us[group]) for group in both if group.any()]
    means = [(float(sizes.mean()), float(times_us.mean())) for sizes, times_us in groups]
    # No setup is less than nothing.
    rate = min(_slope(groups), *(time_us / size for size, time_us in means), math.inf)
    mean_bytes, mean_us = means[-1]
    return max(mean_us - rate * mean_bytes, 0.0), rate


def _slope(groups: list[tuple[Floats, Floats]]) -> float:
    """Return how many us a byte more takes: a line through the trimmed means of each size.

    Sizes are those of half a power of two; each group has a line of its own, of the same slope.
    """
    above = below = 0.0
    for sizes, times_us in groups:
        bins = np.rint(2 * np.log2(sizes)).astype(np.int64)
        points = np.array(
            [_trimmed(sizes[bins == one], times_us[bins == one]) for one in distinct([bins])]
        )
        count, size, time = points.T
        size_off = size - np.average(size, weights=count)
        time_off = time - np.average(time, weights=count)
        above += float((count * size_off * time_off).sum())
        below += float((count * size_off**2).sum())
    return max(above / below, 0.0) if below > 0 else 0.0


def _trimmed(sizes: Floats, times_us: Floats) -> tuple[float, float, float]:
    """Return the number of times, and the means of sizes and times without the extreme ones."""
    cut = len(times_us) // TRIMMED
    kept = np.argsort(times_us, kind="stable")[cut : len(times_us) - cut]
    return float(len(times_us)), float(sizes[kept].mean()), float(times_us[kept].mean())


def _quantiles(times: ServiceTimes, op: int, fitted_us: Floats, mean_us: float) -> Quantiles | None:
    """Return the distribution of a 4 KiB request's time around its mean.

    Its form is that of how many times as long as fitted requests take.
    """
    mine = _prefer(_of_operation(times, op), ~times.continues & ~times.requests.is_fua)
    ordered = np.sort(times.data_us[mine] / np.maximum(fitted_us[mine], LEAST_US))
    if len(ordered) < LEAST_REQUESTS or ordered[-1] <= ordered[0] * (1 + ROUNDING):
        return None
    found = [(p, max(quantile(ordered, p), ROUNDING)) for p in PROBABILITIES]
    factor = mean_us / mean_of(found)
    return tuple((p, max(ratio * factor, LEAST_US)) for p, ratio in found)


def quantile(ascending: Floats, probability: float) -> float:
    """Return a quantile of numbers in order: the least one that so large a share does not exceed.

    numpy's own would load its masked arrays.
    """
    return float(ascending[max(math.ceil(probability * len(ascending)) - 1, 0)])


def _explained(times_us: Floats, fitted_us: Floats) -> float | None:
    spread = float(((times_us - times_us.mean()) ** 2).sum())
    return 1 - float(((times_us - fitted_us) ** 2).sum()) / spread if spread > 0 else None


def _classes(times: ServiceTimes, fitted_us: Floats) -> Iterator[ClassTimes]:
    """Yield the service times of each kind that the trace has."""
    data, joined = times.requests.is_data, times.continues
    for op, name in enumerate(("read", "write")):
        for kind, chosen in (("apart", ~joined), ("continued", joined)):
            mine = data & (times.requests.action == op) & chosen
            if mine.any():
                yield _class(f"{name}, {kind}", times.data_us[mine], fitted_us[mine])
    if len(times.flushes_us):
        yield _class("flush", times.flushes_us, np.full(1, times.flushes_us.mean()))


def _class(name: str, times_us: Floats, fitted_us: Floats) -> ClassTimes:
    ordered = np.sort(times_us)
    return ClassTimes(
        name=name,
        requests=len(ordered),
        mean_us=float(ordered.mean()),
        p50_us=quantile(ordered, 0.5),
        p99_us=quantile(ordered, 0.99),
        fitted_us=float(fitted_us.mean()),
    )


def parallelism(times: ServiceTimes) -> int:
    """Return how many requests the device serves at once.

    Where several were in flight: the time that they would take alone, by the mean of those that
    were, over the time that they took of the device.
    """
    data = times.requests.is_data
    work_us = taken_us = 0.0
    for op in (0, 1):
        mine = data & (times.requests.action == op)
        alone, busy = mine & times.is_alone, mine & ~times.is_alone
        if int(alone.sum()) < LEAST_REQUESTS or not busy.any():
            continue
        rate = _slope([(times.bytes[alone], times.data_us[alone])])
        setup_us = float((times.data_us[alone] - rate * times.bytes[alone]).mean())
        work_us += float((setup_us + rate * times.bytes[busy]).sum())
        taken_us += float(times.data_us[busy].sum())
    return min(max(round(work_us / taken_us), 1), MAX_PARALLELISM) if taken_us > 0 else 1


def scaled(profile: Profile, factor: float) -> Profile:
    """Return a profile of which everything takes `factor` times as long."""

    def of(quantiles: Quantiles | None) -> Quantiles | None:
        return None if quantiles is None else tuple((p, us * factor) for p, us in quantiles)

    def optional(us: float | None) -> float | None:
        return None if us is None else us * factor

    return replace(
        profile,
        read_latency_us=profile.read_latency_us * factor,
        write_latency_us=profile.write_latency_us * factor,
        read_mib_s=profile.read_mib_s / factor,
        write_mib_s=profile.write_mib_s / factor,
        flush_us=profile.flush_us * factor,
        fua_us=profile.fua_us * factor,
        sequential_setup_us=optional(profile.sequential_setup_us),
        empty_flush_us=optional(profile.empty_flush_us),
        read_quantiles_us=of(profile.read_quantiles_us),
        write_quantiles_us=of(profile.write_quantiles_us),
        repeats=(),
    )
