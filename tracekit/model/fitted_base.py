"""The base device of a recommendation: the traced disk, fitted from its own service times.

All parts of the fitted profile are scaled by one factor, so that the model's time of the trace on
this base is the time in which the trace was served: one after the other the time in which the
devices had requests in flight, with queueing the mean response time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tracekit.devices import Profile, choose_profile, load_profiles
from tracekit.model.answer import RESULT, Recommendation
from tracekit.model.gain_range import placement_ps
from tracekit.model.placement import ChargedTrace
from tracekit.model.service_times import (
    ASSUMED,
    FITTED,
    GIVEN,
    GUESSED,
    LEAST_REQUESTS,
    TRACED,
    BaseFit,
    ServiceTimes,
    fit_shape,
    parallelism,
    scaled,
)
from tracekit.model.timed_requests import Sample
from tracekit.store import TraceFolder
from tracekit.units import PS_PER_NS, counted

LEAST_TIMED_RATIO = 0.5
FACTOR_STEPS, FACTOR_CLOSE, LARGEST_FACTOR = 60, 1e-7, 1e4


def known_profiles(folder: TraceFolder, file: Path | None) -> dict[str, Profile]:
    """Return all device profiles, with the one that was fitted to this trace."""
    known = load_profiles(file)
    found = folder.result(RESULT, Recommendation, hint="run recommend again")
    if found is not None and found.base.kind == FITTED and TRACED not in known:
        known[TRACED] = found.profiles[0]
    return known


def choose_base(
    trace: ChargedTrace, name: str, *, known: Mapping[str, Profile], sample: Sample
) -> tuple[ChargedTrace, BaseFit]:
    """Return the trace on the base device that is asked for, and where that is from."""
    if name != TRACED or TRACED in known:
        return _on_base(trace, choose_profile(known, name, others=[TRACED])), BaseFit(kind=GIVEN)
    reason = why_not(sample)
    if reason is not None:
        return _on_base(trace, known[ASSUMED]), BaseFit(kind=GUESSED, reason=reason)
    times = ServiceTimes.of(sample.requests.where(sample.requests.is_timed))
    shape, classes, explained = fit_shape(times)
    if trace.is_open:
        shape = replace(shape, parallelism=float(parallelism(times)))
    fitted = _on_base(trace, shape)
    factor = _open_factor(fitted, times) if trace.is_open else _busy_factor(fitted, sample)
    if factor is None:
        reason = "the model takes no time for the requests that the trace has times of"
        return _on_base(trace, known[ASSUMED]), BaseFit(kind=GUESSED, reason=reason)
    return _on_base(trace, scaled(shape, factor)), BaseFit(
        kind=FITTED,
        requests=sample.charged,
        timed_requests=sample.timed,
        busy_ns=sample.busy_ns,
        span_ns=sample.end_ns - sample.begin_ns,
        factor=factor,
        explained_ratio=explained,
        classes=classes,
    )


def why_not(sample: Sample) -> str | None:
    """Return why a trace's times do not tell its device's, None where they do."""
    if not sample.timed or sample.busy_ns <= 0:
        return "the trace has no service times"
    if sample.timed < LEAST_REQUESTS:
        return (
            f"{sample.timed:,} of {counted(sample.charged, 'request')} have service times, and"
            f" {LEAST_REQUESTS} are needed"
        )
    if sample.timed < LEAST_TIMED_RATIO * sample.charged:
        missing = 1 - sample.timed / sample.charged
        return f"the completions of {missing:.0%} of the requests are missing"
    if not bool((sample.requests.is_timed & sample.requests.is_data).any()):
        return "no read or write has a service time"
    return None


def _on_base(trace: ChargedTrace, base: Profile) -> ChargedTrace:
    return replace(trace, devices=trace.devices._replace(base=base))


def _busy_factor(trace: ChargedTrace, sample: Sample) -> float | None:
    """Return the factor with which requests one after the other take the traced busy time.

    Requests whose times are missing count as the mean of the others.
    """
    model_ps, _ = placement_ps(trace, {}, coverage="hottest")
    busy_ns = sample.busy_ns * sample.charged / sample.timed
    return busy_ns * PS_PER_NS / model_ps if model_ps > 0 else None


def _open_factor(trace: ChargedTrace, times: ServiceTimes) -> float | None:
    """Return the factor with which the mean response with queueing is the traced one.

    The mean only rises with the factor: found by secants on logarithmic scales, or by halving.
    """
    wanted_ps = float((times.requests.end_ns - times.requests.begin_ns).mean()) * PS_PER_NS

    def off(exponent: float) -> float:
        base = scaled(trace.devices.base, math.exp(exponent))
        found_ps, _ = placement_ps(_on_base(trace, base), {}, coverage="hottest")
        return math.log(max(found_ps, 1) / wanted_ps)

    low, high = -math.log(LARGEST_FACTOR), math.log(LARGEST_FACTOR)
    before, before_off = low, off(low)
    if before_off > 0 or off(high) < 0:
        return None
    exponent = 0.0
    for _ in range(FACTOR_STEPS):
        now = off(exponent)
        if abs(now) < FACTOR_CLOSE or high - low < FACTOR_CLOSE:
            break
        low, high = (exponent, high) if now < 0 else (low, exponent)
        secant = exponent - now * (exponent - before) / (now - before_off or 1.0)
        before, before_off = exponent, now
        exponent = secant if low < secant < high else (low + high) / 2
    return math.exp(exponent)
