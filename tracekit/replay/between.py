"""How fast the devices are between replays, so that these are compared at the same speed.

Processors of a virtual machine are now faster, now slower, and so is what is replayed on them. What
requests of the other half of the trace take right before and behind a replay says by how much: the
model's prediction of that replay is the one for such devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import numpy as np

from tracekit.metadata import Record
from tracekit.repeats import mean_of


class Speeds(NamedTuple):
    """What requests take on the base device and on the NVM, to what they take by the profiles."""

    base: float
    nvm: float


@dataclass(frozen=True)
class Between:
    """What is run between replays."""

    measure: Callable[[], Speeds]
    repeats: Sequence[Speeds]
    """The same requests by each measurement of the devices."""


class Slowness(Record):
    """What a device takes between the replays, to what it took when it was measured."""

    ratio: float
    """Median."""
    low_ratio: float
    high_ratio: float
    drift: str | None = None
    """Where it is no longer the device that was measured: in a few words."""


class Round(NamedTuple):
    """The speeds while base and placement were replayed in it."""

    base: Speeds
    placed: Speeds


def middle(found: Sequence[Speeds]) -> Speeds:
    """Return the median of each device."""
    base, nvm = zip(*found, strict=True)
    return Speeds(median(base), median(nvm))


def halfway(before: Speeds, behind: Speeds) -> Speeds:
    """Return the speeds between two measurements: the geometric mean."""
    return Speeds(*(math.sqrt(one * two) for one, two in zip(before, behind, strict=True)))


def slope_of(sides: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """Return how far times follow what was predicted of each: by one slope of all sides, 0 to 1.

    Of each side times and predictions, by their logarithms. What shows in the measurements between
    replays and in no replay, such as a pause, is noise, and would only be added to their times.
    """
    pairs = [[np.log(one) - np.mean(np.log(one)) for one in side] for side in sides]
    took, told = (np.concatenate(found) for found in zip(*pairs, strict=True))
    varies = float(told @ told)
    return min(max(float(took @ told) / varies, 0.0), 1.0) if varies else 0.0


def slowness(
    found: Sequence[float], repeats: Sequence[float], *, what: str, tolerance_ratio: float
) -> Slowness:
    """Return what a device takes, and whether that is no longer what was measured.

    It is not where the interval of the difference, what the measurements leave open included, lies
    beyond the tolerance.
    """
    now, then = mean_of(found), mean_of(repeats)
    halves = [(one.high or one.mean) - one.mean for one in (now, then)]
    low, high = (now.mean / then.mean + sign * math.hypot(*halves) for sign in (-1, 1))
    drift = None
    if low > 1 + tolerance_ratio or high < 1 - tolerance_ratio:
        drift = (
            f"the {what} took {now.mean / then.mean:.0%} ({low:.0%} to {high:.0%}) of what it took"
            f" when it was measured, within {tolerance_ratio:.0%} are allowed"
        )
    return Slowness(median(found), min(found), max(found), drift)
