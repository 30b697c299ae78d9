"""The verdict on a prediction: held, did not hold or cannot tell, by intervals over repeats."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.repeats import mean_of, paired_ratio
from tracekit.replay.summary import Emulation

HELD, FAILED, CANNOT_TELL = "held", "did not hold", "cannot tell"
Floats = npt.NDArray[np.float64]
Pairs = Sequence[tuple[float, float]]
"""Time of base and placement in ns, by repeat."""
Emulations = Sequence[tuple[Emulation | None, Emulation | None]]
"""How late the emulation was in each of these runs."""


@dataclass(frozen=True)
class Expected:
    """What the model says of the requests that are replayed, and what was published of all."""

    base_ns: int
    placed_ns: int
    published_ratio: float
    """The gain."""
    role_ns: Mapping[str, int]
    """On the base device by role; nothing where that is not compared."""
    repeats: Pairs = ()
    """Times of base and placement by each measurement of the devices."""

    @property
    def gain_ratio(self) -> float:
        """The gain of the requests that are replayed."""
        return 1 - self.placed_ns / self.base_ns

    @property
    def spread(self) -> Spread:
        """How sure the prediction is: what the measurements of the devices leave open."""
        if len(self.repeats) < 2:
            return Spread()
        base, placed = zip(*self.repeats, strict=True)
        gain = [1 - ratio for ratio in np.divide(placed, base)]
        found = (mean_of(values) for values in (base, placed, gain))
        base_ns, placed_ns, gain_ratio = ((one.high or 0.0) - one.mean for one in found)
        return Spread(base_ns / self.base_ns, placed_ns / max(self.placed_ns, 1), gain_ratio)


@dataclass(frozen=True)
class Spread:
    """Half of each 95 % confidence interval of a prediction: shares of the times, of the gain."""

    base_ratio: float = 0.0
    placed_ratio: float = 0.0
    gain_ratio: float = 0.0


@dataclass(frozen=True)
class Tolerances:
    """How far the gain may be off, of the base's time, and each time, of what was predicted."""

    gain_ratio: float
    time_ratio: float


@dataclass(frozen=True)
class Verdict:
    """A verdict; its reason where it is not that the prediction held."""

    name: str
    reason: str | None = None


def late(emulations: Emulations) -> str | None:
    """Return by how much emulated completions were too late; None where all were in time."""
    known = [one for pair in emulations for one in pair if one is not None]
    beyond = [one for one in known if not one.is_within_budget]
    if not beyond:
        return None
    worst = max(one.lateness_ratio for one in beyond)
    share = f"up to {worst:.0%} of" if worst >= 0.01 else "less than 1% on average, more at p99, of"
    return (
        f"the emulation was too late in {len(beyond)} of {len(known)} replays, by {share} what the"
        " devices take"
    )


def gain_of(runs: Pairs) -> tuple[float, float] | None:
    """Return the ends of the gain's 95 % confidence interval, of the ratio of each pair.

    None where nothing was repeated.
    """
    base, placed = zip(*runs, strict=True)
    found = paired_ratio(placed, base)
    if found is None or found.low is None or found.high is None:
        return None
    return 1 - found.high, 1 - found.low


def judge(
    runs: Sequence[tuple[float, float]],
    *,
    predicted_ratio: float,
    tolerance_ratio: float,
    spread_ratio: float = 0.0,
) -> str:
    """Return the verdict: an interval of the gain outside of what is allowed, or one too wide.

    Too wide is what is wider than the tolerance to both sides: it would hold for almost anything.
    The interval is that of the difference: `spread_ratio` is half of the prediction's.
    """
    gain = gain_of(runs)
    if gain is None:
        return CANNOT_TELL
    low, high = _widened(*gain, by=spread_ratio)
    if not low - tolerance_ratio <= predicted_ratio <= high + tolerance_ratio:
        return FAILED
    return HELD if high - low <= 2 * tolerance_ratio else CANNOT_TELL


def _widened(low: float, high: float, *, by: float) -> tuple[float, float]:
    """Return the interval of a difference, of which `by` is half of the other one's interval."""
    middle, half = (low + high) / 2, math.hypot((high - low) / 2, by)
    return middle - half, middle + half


def error_of(
    times_ns: Sequence[float],
    predicted_ns: int,
    *,
    roles: Sequence[Mapping[str, float]] = (),
    role_ns: Mapping[str, int] | None = None,
) -> list[float]:
    """Return by repeat how far the time is off, as a share of the predicted one.

    Towards the side on which the mean of the repeats is off, so that the mean is its error: what
    one repeat took more and another less is their spread, and no error of the model. With times by
    role it is the sum of their errors: what one role has too much does not make up for what another
    one lacks.
    """
    own = _off(times_ns, predicted_ns)
    if roles and role_ns:
        by_role = [
            _off([found.get(role, 0.0) for found in roles], expected)
            for role, expected in role_ns.items()
        ]
        own = max(own, np.sum(by_role, axis=0), key=np.mean)
    return [float(one) / predicted_ns for one in own]


def _off(times_ns: Sequence[float], predicted_ns: float) -> Floats:
    found = np.subtract(times_ns, predicted_ns)
    return -found if found.mean() < 0 else found


def judge_error(
    errors: Sequence[float], *, what: str, tolerance_ratio: float, spread_ratio: float = 0.0
) -> Verdict:
    """Return whether a time is within its tolerance, by the interval of its error's mean.

    `spread_ratio` is half of the interval of what was predicted.
    """
    found = mean_of(errors)
    if found.high is None:
        return Verdict(CANNOT_TELL, ONE_REPEAT)
    low, high = _widened(2 * found.mean - found.high, found.high, by=spread_ratio)
    if high <= tolerance_ratio:
        return Verdict(HELD)
    text = f"{what} is {found.mean:.0%} off ({max(low, 0):.0%} to {high:.0%})"
    if low > tolerance_ratio:
        return Verdict(FAILED, f"{text}, {tolerance_ratio:.0%} are allowed")
    return Verdict(CANNOT_TELL, f"{text}, with {tolerance_ratio:.0%} allowed between")


ONE_REPEAT = "one repeat has no spread (raise --repeat)"


def verdict_of(
    runs: Pairs,
    expected: Expected,
    *,
    tolerances: Tolerances,
    emulations: Emulations,
    roles: Sequence[Mapping[str, float]] = (),
) -> Verdict:
    """Return the verdict, which has to be the same without the lateness of the emulation.

    A time without lateness is shorter by all of it at most: what was late may have waited together.
    The gain is compared with the published one, for which the windows have to stand.
    """
    found = _verdict_of(runs, expected, tolerances, roles)
    too_late = late(emulations)
    if too_late is None:
        return found
    own = _own_ns(runs, emulations)
    sides = zip(zip(*runs, strict=True), zip(*own, strict=True), strict=True)
    pairs = (zip(*both, strict=True) for both in itertools.product(*sides))
    others = {_verdict_of([*one], expected, tolerances, ()).name for one in pairs}
    if others == {found.name} and found.name != CANNOT_TELL:
        return found
    return Verdict(CANNOT_TELL, f"{too_late} (close other load, or run this by `chrt -f 10`)")


def _verdict_of(
    runs: Pairs,
    expected: Expected,
    tolerances: Tolerances,
    roles: Sequence[Mapping[str, float]],
) -> Verdict:
    base, placed = (list(times) for times in zip(*runs, strict=True))
    allowed, spread = tolerances.time_ratio, expected.spread
    found = [
        _gain_verdict(runs, expected, tolerances.gain_ratio),
        judge_error(
            error_of(base, expected.base_ns, roles=roles, role_ns=expected.role_ns),
            what="the time on the base device", tolerance_ratio=allowed,
            spread_ratio=spread.base_ratio,
        ),
    ]  # fmt: skip
    if expected.placed_ns:
        found.append(
            judge_error(
                error_of(placed, expected.placed_ns),
                what="the time as placed", tolerance_ratio=allowed,
                spread_ratio=spread.placed_ratio,
            )
        )  # fmt: skip
    for name in (FAILED, CANNOT_TELL):
        reasons = [one.reason for one in found if one.name == name and one.reason]
        if any(one.name == name for one in found):
            return Verdict(name, "; ".join(dict.fromkeys(reasons)) or None)
    return Verdict(HELD)


def _gain_verdict(runs: Pairs, expected: Expected, tolerance_ratio: float) -> Verdict:
    apart = abs(expected.gain_ratio - expected.published_ratio)
    if apart > tolerance_ratio:
        return Verdict(
            CANNOT_TELL,
            f"the model says {expected.gain_ratio:.1%} of the requests that were replayed and"
            f" {expected.published_ratio:.1%} of the whole trace: these do not stand for it (raise"
            " --duration)",
        )
    spread_ratio = expected.spread.gain_ratio
    name = judge(
        runs,
        predicted_ratio=expected.published_ratio,
        tolerance_ratio=tolerance_ratio,
        spread_ratio=spread_ratio,
    )
    reason = _too_wide(runs, tolerance_ratio, spread_ratio) if name == CANNOT_TELL else None
    return Verdict(name, reason)


def _too_wide(runs: Pairs, tolerance_ratio: float, spread_ratio: float) -> str:
    gain = gain_of(runs)
    if gain is None:
        return ONE_REPEAT
    if gain[1] - gain[0] <= 2 * tolerance_ratio:
        return (
            "the measurements of the devices leave the gain open by"
            f" {spread_ratio * 100:.1f} points to either side (measure them more often, or longer)"
        )
    needed = len(runs) * ((gain[1] - gain[0]) / (2 * tolerance_ratio or 1e-3)) ** 2
    return (
        f"{len(runs)} repeats spread too far for {tolerance_ratio * 100:.1f} points to either side"
        f" (about {math.ceil(needed):,} would do: raise --repeat, or --duration)"
    )


def _own_ns(runs: Pairs, emulations: Emulations) -> list[list[float]]:
    """Return the times less what was the emulation's lateness."""
    return [
        [ns * (1 - (0 if one is None else one.late_share)) for ns, one in zip(*both, strict=True)]
        for both in zip(runs, emulations, strict=True)
    ]
