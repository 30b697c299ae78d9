"""The arrivals of one stream as a profile says them: phases, then the gaps at a constant rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracekit.arrow import Floats
from tracekit.workload.model import QUANTILES, Distribution, mean

QUANTILE_COUNT = 49
EM_STEPS = 200
SAMPLE = 1_000_000  # gaps that are looked at, evenly taken


@dataclass(frozen=True)
class GapFit:
    """A distribution with its parameters as a profile writes them; `cdf` takes gaps in ns."""

    process: str
    parameters: int
    log_likelihood: float
    values: dict[str, float]
    cdf: Callable[[Floats], Floats]

    @property
    def aic(self) -> float:
        """Akaike's criterion: the smaller, the better."""
        return 2 * self.parameters - 2 * self.log_likelihood

    @property
    def mean_ns(self) -> float:
        """The mean gap."""
        if self.process != "on-off":
            return self.values["mean"]
        requests = self.values["requests"]
        return (self.values["mean"] * (requests - 1) + self.values["off"]) / requests

    def distance(self, gaps: Floats) -> float:
        """Return the Kolmogorov-Smirnov distance of gaps from it."""
        from scipy import stats

        cdf: Any = self.cdf  # of an array, not of one number as the types say
        return float(stats.ks_1samp(gaps, cdf, method="asymp").statistic)


def fits(gaps: Floats) -> list[GapFit]:
    """Return all that were tried for gaps above 0, at least one, the likeliest first."""
    gaps = gaps[:: max(1, len(gaps) // SAMPLE)]
    if gaps.min() == gaps.max():
        only = float(gaps[0])
        return [GapFit("constant", 1, 0.0, {"mean": only}, lambda x: (x >= only).astype(float))]
    found = [fit(gaps) for fit in (_exponential, _gamma, _weibull, _lognormal, _on_off)]
    return sorted((one for one in found if math.isfinite(one.aic)), key=lambda one: one.aic)


def _exponential(gaps: Floats) -> GapFit:
    mean = float(gaps.mean())
    likelihood = -len(gaps) * (math.log(mean) + 1)
    return GapFit("exponential", 1, likelihood, {"mean": mean}, lambda x: -np.expm1(-x / mean))


def _gamma(gaps: Floats) -> GapFit:
    """Fit the shape by Newton's method on log(shape) - digamma(shape) (Minka 2002)."""
    from scipy import special

    mean = float(gaps.mean())
    spread = math.log(mean) - float(np.log(gaps).mean())
    shape = (3 - spread + math.sqrt((spread - 3) ** 2 + 24 * spread)) / (12 * spread)
    for _ in range(20):
        slope = 1 / shape - float(special.polygamma(1, shape))
        error = math.log(shape) - float(special.digamma(shape)) - spread
        shape = max(shape - error / slope, shape / 10)
    shape = min(max(shape, 0.011), 9e3)
    scale = mean / shape
    logs = float(np.log(gaps).sum())
    likelihood = (shape - 1) * logs - gaps.sum() / scale
    likelihood -= len(gaps) * (shape * math.log(scale) + math.lgamma(shape))
    return GapFit("gamma", 2, float(likelihood), {"mean": mean, "shape": shape},
                  lambda x: np.asarray(special.gammainc(shape, x / scale)))  # fmt: skip


def _weibull(gaps: Floats) -> GapFit:
    """Solve the likelihood's equation of the shape, which has one root."""
    from scipy import optimize

    logs = np.log(gaps / gaps.max())
    mean_log = float(logs.mean())

    def equation(shape: float) -> float:
        weights = np.exp(shape * logs)
        return float((weights * logs).sum() / weights.sum()) - 1 / shape - mean_log

    shape = float(optimize.brentq(equation, 0.011, 500)) if equation(500) > 0 else 500.0
    scale = float(np.exp(shape * logs).mean() ** (1 / shape) * gaps.max())
    parts = np.log(gaps / scale)
    likelihood = len(gaps) * math.log(shape / scale) + (shape - 1) * parts.sum()
    likelihood -= np.exp(shape * parts).sum()
    mean = scale * math.gamma(1 + 1 / shape)
    return GapFit("weibull", 2, float(likelihood), {"mean": mean, "shape": shape},
                  lambda x: -np.expm1(-((x / scale) ** shape)))  # fmt: skip


def _lognormal(gaps: Floats) -> GapFit:
    from scipy import special

    logs = np.log(gaps)
    middle, sigma = float(logs.mean()), max(float(logs.std()), 1e-4)
    likelihood = -logs.sum() - len(gaps) * (math.log(sigma * math.sqrt(2 * math.pi)) + 0.5)
    mean = math.exp(middle + sigma * sigma / 2)
    return GapFit("lognormal", 2, float(likelihood), {"mean": mean, "sigma": sigma},
                  lambda x: np.asarray(special.ndtr((np.log(x) - middle) / sigma)))  # fmt: skip


def _on_off(gaps: Floats) -> GapFit:
    """Fit a mixture of two exponentials by expectation-maximization: within bursts and between."""
    middle = float(np.median(gaps))
    short, long, share = max(middle / 2, 1.0), float(gaps.max()) / 2, 0.9
    likelihood = -math.inf
    for _ in range(EM_STEPS):
        within = share / short * np.exp(-gaps / short)
        total = within + (1 - share) / long * np.exp(-gaps / long) + 1e-300
        before, likelihood = likelihood, float(np.log(total).sum())
        belongs = within / total
        share = min(max(float(belongs.mean()), 1e-6), 1 - 1e-6)
        short = max(float((belongs * gaps).sum() / belongs.sum()), 1.0)
        long = max(float(((1 - belongs) * gaps).sum() / (1 - belongs).sum()), 1.0)
        if abs(likelihood - before) < 1e-8 * abs(likelihood):
            break
    values = {"mean": short, "off": long, "requests": 1 / (1 - share)}

    def cdf(of: Floats) -> Floats:
        return np.asarray(1 - share * np.exp(-of / short) - (1 - share) * np.exp(-of / long))

    return GapFit("on-off", 3, likelihood, values, cdf)


def quantiles(gaps: Floats) -> tuple[list[float], list[float]]:
    """Return shares and the gaps in ns that they are reached with, of sorted gaps.

    They are closer to each other at both ends. The largest tenth is scaled so that the mean, with
    gaps between two values log-uniform, is that of the gaps.
    """
    from scipy import optimize

    shares = (1 - np.cos(np.linspace(0, np.pi, QUANTILE_COUNT))) / 2
    shares[0], shares[-1] = 0.0, 1.0
    values = np.maximum(np.quantile(gaps, shares), 1.0)
    wanted = float(gaps.mean())
    is_tail = shares >= 0.9

    def scaled(factor: float) -> Floats:
        return np.asarray(np.maximum.accumulate(np.where(is_tail, values * factor, values)))

    def error(factor: float) -> float:
        points, up_to = tuple(scaled(factor).tolist()), tuple(shares.tolist())
        return mean(Distribution(QUANTILES, values=points, up_to=up_to)) - wanted

    if error(0.2) < 0 < error(5.0):
        values = scaled(float(optimize.brentq(error, 0.2, 5.0, xtol=1e-6)))
    else:
        values = values * (wanted / (wanted + error(1.0)))
    return shares.tolist(), values.tolist()


def correlation(gaps: Floats) -> float:
    """Return how the normal scores of neighbouring gaps are correlated, 0 for few or equal gaps."""
    from scipy import special, stats

    gaps = gaps[:SAMPLE]
    if len(gaps) < 50 or gaps.min() == gaps.max():
        return 0.0
    scores = special.ndtri((stats.rankdata(gaps) - 0.5) / len(gaps))
    with np.errstate(invalid="ignore", divide="ignore"):  # all equal but one at an end
        found = float(np.corrcoef(scores[1:], scores[:-1])[0, 1])
    return found if math.isfinite(found) else 0.0


def dispersion(times_ns: Floats, window_ns: float) -> float:
    """Return the index of dispersion: variance by mean of the requests a window."""
    counts = np.bincount((times_ns // window_ns).astype(np.int64))
    return float(counts.var() / counts.mean()) if len(counts) > 1 else 0.0


MOST_PHASES = 48
POISSON = 3.0  # an index of dispersion below it needs no phases
CORRELATED = 0.05
RATE_ERROR = 0.05
CLOSE = 0.03  # a distribution farther than that from the gaps gives way to their quantiles
WINDOWS = 200  # of the index of dispersion


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
    # Gamma and bursts cannot be correlated.
    likely = (one for one in tried if not rho or one.process not in ("gamma", "on-off"))
    best = next(likely, None)
    is_close = best is not None and _is_close(best, ordered)
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
    keys = _measured(ordered) if best is None or measured or not is_close else _keys(best)
    if rho:
        keys["correlation"] = min(max(rho, -0.99), 0.99)
    return ArrivalFit(keys, phases, facts)


def _measured(gaps: Floats) -> dict[str, Any]:
    shares, values_ns = quantiles(gaps)
    values_us = np.maximum([float(f"{value / 1e3:.4g}") for value in values_ns], 1e-3)
    return {
        "process": "measured",
        "shares": [round(share, 5) for share in shares],
        "values_us": np.maximum.accumulate(values_us).tolist(),
    }


def _is_close(fit: GapFit, gaps: Floats) -> bool:
    """Say whether the distribution is near the gaps and has their rate."""
    is_of_rate = abs(fit.mean_ns / float(gaps.mean()) - 1) <= RATE_ERROR
    return is_of_rate and fit.distance(gaps) <= CLOSE


def _keys(fit: GapFit) -> dict[str, Any]:
    values = fit.values
    mean = f"{max(round(values['mean']), 1)}ns"
    if fit.process == "on-off":
        off = f"{max(round(values['off']), 1)}ns"
        requests = {"distribution": "exponential", "mean": round(max(values["requests"], 1.0), 3)}
        burst = {"requests": requests, "off": "exponential", "mean": off}
        return {"process": "exponential", "mean": mean, "burst": burst}
    shapes = [key for key in values if key in ("shape", "sigma")]
    shape = {key: float(f"{values[key]:.5g}") for key in shapes}
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
    return [(length_ns, round(float(one / counts.mean()), 4)) for one in counts]


def _evened(times_ns: Floats, phases: list[tuple[int, float]]) -> Floats:
    """Return the times as they would be at a constant rate."""
    edges = np.cumsum([0.0, *(length for length, _ in phases)])
    mass = np.cumsum([0.0, *(length * rate for length, rate in phases)])
    return np.asarray(np.interp(times_ns, edges, mass))
