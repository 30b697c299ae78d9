"""Mean values of the distributions and arrivals of a work profile, by formula."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tracekit.workload.model import (
    CHOICES,
    GAMMA,
    LOGNORMAL,
    QUANTILES,
    WEIBULL,
    Arrival,
    Distribution,
    Phase,
    Profile,
)


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
