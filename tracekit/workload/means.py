"""Mean values of the distributions of a work profile, by formula."""

from __future__ import annotations

import math

from tracekit.workload.model import (
    CHOICES,
    GAMMA,
    LOGNORMAL,
    QUANTILES,
    WEIBULL,
    Distribution,
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


def _log_uniform(low: float, high: float) -> float:
    """Return the mean of a number whose logarithm is uniform between those of two others."""
    ratio = high / low
    return low if ratio - 1 < 1e-9 else (high - low) / math.log(ratio)
