"""The arrivals of one stream as a profile says them: phases, then the gaps at a constant rate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.fit.gaps import GapFit, correlation, dispersion, fits, quantiles

Floats = npt.NDArray[np.float64]
MOST_PHASES = 48
POISSON = 3.0  # an index of dispersion below it needs no phases
CORRELATED = 0.05
RATE_ERROR = 0.05
CLOSE = 0.03  # a distribution farther than that from the gaps gives way to their quantiles
WINDOWS = 200  # of the index of dispersion that is told


@dataclass(frozen=True)
class ArrivalFit:
    """The keys of [arrival], its phases as (ns, rate), and what was found on the way."""

    keys: dict[str, Any]
    phases: list[tuple[int, float]]
    facts: dict[str, Any] = field(default_factory=dict)


def fit_arrival(times_ns: Floats, span_ns: float, *, measured: bool = False) -> ArrivalFit:
    """Return the arrival process of requests at ascending times within a span.

    With `measured` the quantiles of the gaps are taken whatever distribution comes close.
    """
    span_ns = max(span_ns, 1.0)
    phases = _phases(times_ns, span_ns)
    even_ns = _evened(times_ns, phases) if phases else times_ns
    # What is left behind the last request belongs to the first gap: so their mean is the rate's.
    gaps = np.diff(even_ns, prepend=0.0)
    gaps[0] += max(span_ns - even_ns[-1], 0.0)
    gaps = np.maximum(gaps, 1.0)
    rho = correlation(gaps)
    rho = round(rho, 3) if abs(rho) >= CORRELATED else 0.0
    ordered = np.sort(gaps)
    tried = fits(ordered)
    best = _best(tried, is_correlated=rho != 0)
    distance = 1.0 if best is None else _distance(best, ordered)
    facts = {
        "requests": len(times_ns),
        "tried": [
            {"process": one.process, "aic": one.aic, "ks_ratio": one.distance(ordered)}
            for one in tried
        ],
        "correlation": correlation(gaps),
        "dispersion": dispersion(times_ns, span_ns / WINDOWS + 1),
        "phases": len(phases),
    }
    if best is None or measured or distance > CLOSE:
        shares, values_ns = quantiles(ordered)
        keys: dict[str, Any] = {
            "process": "measured",
            "shares": [round(share, 6) for share in shares],
            "values_us": _rising([float(f"{value / 1e3:.5g}") for value in values_ns]),
        }
        return ArrivalFit(_correlated(keys, min(max(rho, -0.99), 0.99)), phases, facts)
    return ArrivalFit(_correlated(_keys(best), min(max(rho, -0.99), 0.99)), phases, facts)


def _distance(fit: GapFit, gaps: Floats) -> float:
    """Return how far the distribution is from sorted gaps; 1 if its rate is another one."""
    is_of_rate = abs(fit.mean_ns / float(gaps.mean()) - 1) <= RATE_ERROR
    return fit.distance(gaps) if is_of_rate else 1.0


def _rising(values: list[float]) -> list[float]:
    rising: list[float] = np.maximum.accumulate(np.maximum(values, 1e-3)).tolist()
    return rising


def _correlated(keys: dict[str, Any], rho: float) -> dict[str, Any]:
    return {**keys, "correlation": rho} if rho else keys


def _best(tried: list[GapFit], *, is_correlated: bool) -> GapFit | None:
    """Return the likeliest; gamma and bursts cannot be correlated."""
    allowed = [one for one in tried if not is_correlated or one.process not in ("gamma", "on-off")]
    return allowed[0] if allowed else None


def _keys(fit: GapFit) -> dict[str, Any]:
    values = fit.values
    mean = f"{max(round(values['mean']), 1)}ns"
    if fit.process == "on-off":
        off = f"{max(round(values['off']), 1)}ns"
        requests = {"distribution": "exponential", "mean": round(max(values["requests"], 1.0), 3)}
        burst = {"requests": requests, "off": "exponential", "mean": off}
        return {"process": "exponential", "mean": mean, "burst": burst}
    shape: dict[str, Any] = {
        key: float(f"{values[key]:.5g}") for key in ("shape", "sigma") if key in values
    }
    return {"process": fit.process, "mean": mean, **shape}


def _phases(times_ns: Floats, span_ns: float) -> list[tuple[int, float]]:
    """Return windows of equal length with their rates; none where requests come evenly."""
    count = MOST_PHASES
    length_ns = round(span_ns / count)
    if length_ns < 1:
        return []
    number = np.minimum((times_ns // length_ns).astype(np.int64), count - 1)
    counts = np.bincount(number, minlength=count)
    if counts.var() / counts.mean() < POISSON:
        return []
    return [(length_ns, round(float(one / counts.mean()), 5)) for one in counts]


def _evened(times_ns: Floats, phases: list[tuple[int, float]]) -> Floats:
    """Return the times as they would be at a constant rate."""
    edges = np.cumsum([0.0, *(length for length, _ in phases)])
    mass = np.cumsum([0.0, *(length * rate for length, rate in phases)])
    return np.asarray(np.interp(times_ns, edges, mass))
