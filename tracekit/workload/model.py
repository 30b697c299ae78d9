"""A work profile in memory: checked, in bytes and nanoseconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

CONSTANT, EXPONENTIAL, GAMMA, WEIBULL, LOGNORMAL, QUANTILES, CHOICES = range(7)
"""Kinds of distributions, as `replayer/workload/dist.h` numbers them."""
UNIFORM, ZIPF, SHARES = range(3)
"""Kinds of localities, as `replayer/workload/place.h` numbers them."""
OPERATIONS = ("read", "write", "flush")
FLAGS = ("fua", "preflush", "sync", "meta", "readahead")
"""In the order of their bits in a record of a plan."""


@dataclass(frozen=True)
class Distribution:
    """Of a number: `scale` is the constant, mean, scale or median by kind, `shape` shape or sigma.

    Of quantiles and choices `values` are reached with the cumulated probabilities `up_to`.
    """

    kind: int
    scale: float = 0.0
    shape: float = 0.0
    values: tuple[float, ...] = ()
    up_to: tuple[float, ...] = ()


ONE = Distribution(CONSTANT, 1.0)


@dataclass(frozen=True)
class Phase:
    """A part of the time in which requests come `rate` times as fast."""

    duration_ns: int
    rate: float


@dataclass(frozen=True)
class Arrival:
    """When the requests of a stream come; of bursts `off` is the pause, `burst` the requests."""

    gap: Distribution
    correlation: float = 0.0
    off: Distribution | None = None
    burst: Distribution | None = None
    phases: tuple[Phase, ...] = ()


@dataclass(frozen=True)
class Locality:
    """Where requests begin: ranks of blocks by Zipf's law or by shares, or where one began before.

    `distance` says how many places back, counted from 1, by their last use: places where requests
    began, or of requests that follow all pages of 4 KiB.
    """

    kind: int = UNIFORM
    block_bytes: int = 0
    exponent: float = 0.0
    blocks_to: tuple[float, ...] = ()
    requests_to: tuple[float, ...] = ()
    reuse_ratio: float = 0.0
    distance: Distribution = ONE


@dataclass(frozen=True)
class Request:
    """A kind of requests: its share of the stream, sizes in bytes, and where they go.

    `run` is how many of them go on one after the other from one place: one of random access, None
    of sequential access without end. A request that follows `begins` "on" where the stream's last
    such request ended, "resumed" where the run before that one ended, or "elsewhere", on pages that
    were used before (`is_used`) or not. `uses` has cumulated shares of how often they were used, by
    powers of 2, for powers of 4 of the distance, one row after the other. With `circle`, the start
    and the bytes of a part of the stream's, it goes round there. `then` says how often each of the
    stream's kinds comes behind it.
    """

    share: float
    operation: str
    size: Distribution = Distribution(CONSTANT, 0.0)
    least_bytes: int = 0
    most_bytes: int = 0
    align_bytes: int = 512
    run: Distribution | None = ONE
    begins: str | None = None
    is_used: bool = False
    uses: tuple[float, ...] = ()
    circle: tuple[int, int] | None = None
    then: tuple[int, ...] = ()
    locality: Locality = Locality()
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stream:
    """Requests with an arrival of their own, on a part of the target."""

    arrival: Arrival
    requests: tuple[Request, ...]
    start_bytes: int
    size_bytes: int
    role: str = "unknown"
    process: str | None = None


@dataclass(frozen=True)
class Profile:
    """A work profile; `pace` is open (requests at their times) or fast (always `depth` of them)."""

    name: str
    about: str
    target_bytes: int
    streams: tuple[Stream, ...]
    sector_bytes: int = 512
    is_direct: bool = True
    pace: str = "open"
    depth: int = 32
    file: Path = field(default=Path(), compare=False)
    text: str = field(default="", compare=False)


def mean(of: Distribution) -> float:
    """Return the mean, in the unit of the distribution."""
    if of.kind == GAMMA:
        return of.scale * of.shape
    if of.kind == WEIBULL:
        return of.scale * math.gamma(1 + 1 / of.shape)
    if of.kind == LOGNORMAL:
        return of.scale * math.exp(of.shape**2 / 2)
    if of.kind not in (QUANTILES, CHOICES):
        return of.scale
    shares = [after - before for before, after in zip((0, *of.up_to), of.up_to, strict=False)]
    if of.kind == CHOICES:
        return math.fsum(s * v for s, v in zip(shares, of.values, strict=True))
    pieces = zip(shares[1:], of.values, of.values[1:], strict=False)
    return math.fsum(share * _log_uniform(low, high) for share, low, high in pieces)


def mean_gap_ns(arrival: Arrival) -> float:
    """Return the mean time between two requests of a stream, all phases together."""
    gap_ns = _gap_at_rate_1(arrival)
    cycle_ns = sum(phase.duration_ns for phase in arrival.phases)
    return gap_ns * cycle_ns / _mass(arrival.phases) if arrival.phases else gap_ns


def expected_requests(profile: Profile, duration_ns: int) -> float:
    """Return how many requests come before a time, on average."""
    return math.fsum(
        _passed_ns(stream.arrival.phases, duration_ns) / _gap_at_rate_1(stream.arrival)
        for stream in profile.streams
    )


def _gap_at_rate_1(arrival: Arrival) -> float:
    gap_ns = mean(arrival.gap)
    if arrival.burst is not None and arrival.off is not None:
        requests = max(mean(arrival.burst), 1)
        gap_ns = (gap_ns * (requests - 1) + mean(arrival.off)) / requests
    return gap_ns


def _mass(phases: Sequence[Phase]) -> float:
    return math.fsum(phase.duration_ns * phase.rate for phase in phases)


def _passed_ns(phases: Sequence[Phase], duration_ns: int) -> float:
    """Return the time at rate 1 in which as many requests come as in that time of the phases."""
    if not phases:
        return duration_ns
    cycles, left_ns = divmod(duration_ns, sum(phase.duration_ns for phase in phases))
    passed_ns = cycles * _mass(phases)
    for phase in phases:
        passed_ns += min(left_ns, phase.duration_ns) * phase.rate
        left_ns = max(left_ns - phase.duration_ns, 0)
    return passed_ns


def _log_uniform(low: float, high: float) -> float:
    """Return the mean of a number whose logarithm is uniform between those of two others."""
    ratio = high / low
    return low if ratio - 1 < 1e-9 else (high - low) / math.log(ratio)
