"""The verdict on a prediction: held, did not hold or cannot tell, by intervals over repeats."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracekit.repeats import mean_of, paired_ratio
from tracekit.replay.summary import Emulation

HELD, FAILED, CANNOT_TELL = "held", "did not hold", "cannot tell"
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

    @property
    def gain_ratio(self) -> float:
        """The gain of the requests that are replayed."""
        return 1 - self.placed_ns / self.base_ns


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
    return (
        f"the emulation was too late in {len(beyond)} of {len(known)} replays, by up to {worst:.0%}"
        " of what the devices take"
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
    runs: Sequence[tuple[float, float]], *, predicted_ratio: float, tolerance_ratio: float
) -> str:
    """Return the verdict: an interval of the gain outside of what is allowed, or one too wide.

    Too wide is what is wider than the tolerance to both sides: it would hold for almost anything.
    """
    gain = gain_of(runs)
    if gain is None:
        return CANNOT_TELL
    low, high = gain
    if not low - tolerance_ratio <= predicted_ratio <= high + tolerance_ratio:
        return FAILED
    return HELD if high - low <= 2 * tolerance_ratio else CANNOT_TELL


def error_of(
    times_ns: Sequence[float],
    predicted_ns: int,
    *,
    roles: Sequence[Mapping[str, float]] = (),
    role_ns: Mapping[str, int] | None = None,
) -> list[float]:
    """Return by repeat how far the time is from the predicted one, as a share of that.

    With times by role it is the sum of their errors: what one role has too much does not make up
    for what another one lacks.
    """
    own = [abs(time_ns - predicted_ns) / predicted_ns for time_ns in times_ns]
    if not roles or not role_ns:
        return own
    by_role = [
        sum(abs(found.get(role, 0.0) - expected) for role, expected in role_ns.items())
        / predicted_ns
        for found in roles
    ]
    return [max(pair) for pair in zip(own, by_role, strict=True)]


def judge_error(errors: Sequence[float], *, what: str, tolerance_ratio: float) -> Verdict:
    """Return whether a time is within its tolerance, by the interval of its error's mean."""
    found = mean_of(errors)
    if found.low is None or found.high is None:
        return Verdict(CANNOT_TELL, ONE_REPEAT)
    if found.high <= tolerance_ratio:
        return Verdict(HELD)
    text = f"{what} is {found.mean:.0%} off ({found.low:.0%} to {found.high:.0%})"
    if found.low > tolerance_ratio:
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
    return found if others == {found.name} and found.name != CANNOT_TELL else Verdict(CANNOT_TELL)


def _verdict_of(
    runs: Pairs,
    expected: Expected,
    tolerances: Tolerances,
    roles: Sequence[Mapping[str, float]],
) -> Verdict:
    base, placed = (list(times) for times in zip(*runs, strict=True))
    allowed = tolerances.time_ratio
    found = [
        _gain_verdict(runs, expected, tolerances.gain_ratio),
        judge_error(
            error_of(base, expected.base_ns, roles=roles, role_ns=expected.role_ns),
            what="the time on the base device", tolerance_ratio=allowed,
        ),
    ]  # fmt: skip
    if expected.placed_ns:
        errors = error_of(placed, expected.placed_ns)
        found.append(judge_error(errors, what="the time as placed", tolerance_ratio=allowed))
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
    name = judge(runs, predicted_ratio=expected.published_ratio, tolerance_ratio=tolerance_ratio)
    return Verdict(name, _too_wide(runs, tolerance_ratio) if name == CANNOT_TELL else None)


def _too_wide(runs: Pairs, tolerance_ratio: float) -> str:
    gain = gain_of(runs)
    if gain is None:
        return ONE_REPEAT
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
