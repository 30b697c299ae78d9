"""What was measured, beside what was predicted, and the verdict on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import msgspec
import pyarrow as pa

from tracekit.metadata import Record
from tracekit.repeats import paired_ratio
from tracekit.replay.between import Between, Slowness, slowness
from tracekit.replay.prediction import Prediction, Repeat
from tracekit.replay.verdict import (
    CANNOT_TELL,
    HELD,
    Expected,
    Tolerances,
    Verdict,
    gain_of,
    late,
    verdict_of,
)
from tracekit.replay.verify_runs import Runs, Timed, VerifyOptions
from tracekit.tables import VERIFICATION


class Measured(Record, kw_only=True):
    """Medians over the repeats, the range of the gains, and their 95 % confidence interval."""

    base_ns: int
    placed_ns: int
    gain_ratio: float
    gain_low_ratio: float
    gain_high_ratio: float
    gain_confident_low_ratio: float | None = None
    gain_confident_high_ratio: float | None = None
    role_ns: dict[str, int] = msgspec.field(default_factory=dict)
    """Service time by role on the base device, requests one after the other."""
    repeats: int


class Interleaved(Record):
    """What the devices took between replays, beside what they took when they were measured."""

    base: Slowness
    nvm: Slowness
    as_it_was: Measured
    """What the replays took; elsewhere it is as if the speeds had been their medians all the time.
    """

    @property
    def drifts(self) -> list[str]:
        """Which of them is no longer the device that was measured, in a few words."""
        return [one.drift for one in (self.base, self.nvm) if one.drift]


class RunnerUp(Record):
    """The placement that the model has next: medians, and how far the answer is ahead of it."""

    placement: str
    predicted_ns: int
    measured_ns: int
    predicted_ahead_ratio: float
    """0 to 1, of the runner-up's time."""
    ahead_ratio: float
    ahead_low_ratio: float | None
    ahead_high_ratio: float | None


class Verification(Record):
    """The content of verification.json, to which `headline` is added."""

    predicted: Prediction
    measured: Measured
    base_error_ratio: float
    placed_error_ratio: float | None
    gain_error_ratio: float
    """Measured less published."""
    published_ratio: float
    """The gain that recommend said, of the whole trace."""
    tolerance_ratio: float
    time_tolerance_ratio: float
    verdict: str
    """held, did not hold or cannot tell."""
    is_held: bool | None
    """None: nobody can tell."""
    reason: str | None
    """Why the prediction did not hold, or nobody can tell."""
    emulation_late: str | None
    """By how much emulated completions were too late."""
    answer: dict[str, Any]
    runner_up: RunnerUp | None
    requests: int
    trace_requests: int
    windows: int
    engine: str
    base_profile: str
    nvm_profile: str
    level: str
    queueing: str
    cut_requests: int
    pieces: int
    left_out_ratio: float | None = None
    """Of the requests: time of a processor was stolen meanwhile; None where all count."""
    interleaved: Interleaved | None = None
    """None where the devices were not measured between the replays."""


def judged(
    runs: Runs,
    predicted: Prediction,
    *,
    published_ratio: float,
    options: VerifyOptions,
    between: Between | None,
) -> dict[str, Any]:
    """Return the fields of a Verification that say what was measured, and the verdict on it."""
    found = _interleaved(runs, between, options, roles=predicted.role_ns)
    runs = runs.at_one_speed(predicted)
    measured = _measured(runs, predicted.role_ns)
    verdict = _verdict_on(runs, predicted, published_ratio=published_ratio, options=options)
    if verdict.name == HELD and found is not None and found.drifts:
        verdict = Verdict(CANNOT_TELL, "; ".join(found.drifts))
    placed_ns = predicted.placed_ns
    return {
        "interleaved": found,
        "predicted": predicted,
        "measured": measured,
        "base_error_ratio": measured.base_ns / predicted.base_ns - 1,
        "placed_error_ratio": measured.placed_ns / placed_ns - 1 if placed_ns else None,
        "gain_error_ratio": measured.gain_ratio - published_ratio,
        "published_ratio": published_ratio,
        "engine": options.engine,
        "tolerance_ratio": options.tolerance_ratio,
        "time_tolerance_ratio": options.time_tolerance_ratio,
        "verdict": verdict.name,
        "is_held": None if verdict.name == CANNOT_TELL else verdict.name == HELD,
        "reason": verdict.reason,
        "emulation_late": late(runs.emulations),
    }


def _interleaved(
    runs: Runs, between: Between | None, options: VerifyOptions, *, roles: Iterable[str]
) -> Interleaved | None:
    """Return how fast the devices were between replays, and the times as they were."""
    if between is None:
        return None
    during = [one for both in runs.rounds for one in both]
    sides = zip(zip(*during, strict=True), zip(*between.repeats, strict=True), strict=True)
    base, nvm = (
        slowness(found, known, what=what, tolerance_ratio=options.time_tolerance_ratio)
        for what, (found, known) in zip(("base device", "NVM"), sides, strict=True)
    )
    return Interleaved(base, nvm, _measured(runs, roles))


def _measured(runs: Runs, roles: Iterable[str]) -> Measured:
    gains = sorted(1 - placed / base for base, placed in runs.pairs)
    base_ns, placed_ns = (median(times) for times in zip(*runs.pairs, strict=True))
    low, high = gain_of(runs.pairs) or (None, None)
    return Measured(
        base_ns=round(base_ns),
        placed_ns=round(placed_ns),
        gain_ratio=1 - placed_ns / base_ns,
        gain_low_ratio=gains[0],
        gain_high_ratio=gains[-1],
        gain_confident_low_ratio=low,
        gain_confident_high_ratio=high,
        role_ns={
            role: round(median(one.role_ns.get(role, 0.0) for one in runs.base)) for role in roles
        },
        repeats=len(runs.base),
    )


def _verdict_on(
    runs: Runs, predicted: Prediction, *, published_ratio: float, options: VerifyOptions
) -> Verdict:
    return verdict_of(
        runs.pairs,
        Expected(
            predicted.base_ns,
            predicted.placed_ns,
            published_ratio,
            predicted.role_ns,
            [(one.base_ns, one.placed_ns) for one in predicted.repeats],
        ),
        tolerances=Tolerances(options.tolerance_ratio, options.time_tolerance_ratio),
        emulations=runs.emulations,
        roles=[one.role_ns for one in runs.base],
    )


def rival_of(runs: Runs, predicted: Prediction, *, placement: str) -> RunnerUp:
    """Return what the runner-up took beside the answer."""
    placed, rival = ([one.time_ns for one in side] for side in (runs.placed, runs.rival))
    found = paired_ratio(placed, rival)
    low, high = (None, None) if found is None else (found.low, found.high)
    rival_ns, expected_ns = median(rival), predicted.runner_up_ns or 1
    return RunnerUp(
        placement=placement,
        predicted_ns=expected_ns,
        measured_ns=round(rival_ns),
        predicted_ahead_ratio=1 - predicted.placed_ns / expected_ns,
        ahead_ratio=1 - median(placed) / rival_ns,
        ahead_low_ratio=None if high is None else 1 - high,
        ahead_high_ratio=None if low is None else 1 - low,
    )


def table_of(runs: Runs, predicted: Prediction) -> Any:
    """Return verification.parquet: a row for each replay, by turns."""
    count = len(runs.base)
    rounds = predicted.rounds or [Repeat(predicted.base_ns, predicted.placed_ns)] * count
    sides: dict[str, tuple[Sequence[int | None], list[Timed]]] = {
        "base": ([one.base_ns for one in rounds], runs.base),
        "placement": ([one.placed_ns for one in rounds], runs.placed),
        "runner-up": ([predicted.runner_up_ns] * count, runs.rival),
    }
    rows = [
        {
            "repeat": number + 1,
            "devices": devices,
            "predicted_ns": predicted_ns[number],
            "measured_ns": took[number].time_ns,
        }
        for number in range(count)
        for devices, (predicted_ns, took) in sides.items()
        if took
    ]
    return pa.Table.from_pylist(rows, VERIFICATION)
