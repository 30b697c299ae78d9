"""Repeats of a run: their order, what they say of a ratio of times, and how many it takes.

Of times that are all compared by factors, so that everything here is of their logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tracekit.metadata import Record

LEVEL = 0.95
POWER = 0.8
"""Probability with which a difference that is called detectable is found."""
SAME = 1e-9
"""Least spread of logarithms: clocks and rounding have as much, where times are all the same."""
LEAST_REPEATS = 3
"""Fewer do not show how far repeats spread."""
MANY_DEGREES = 1000  # of freedom: Student's t is as good as normal
MOST_REPEATS = 1_000_000
MOST_LOGARITHM = 700.0  # the exponential of more is infinite


class Turn(Record):
    """Where a run stands in a series of several configurations that take turns."""

    series: str
    """When it began: that of all runs of the series."""
    pair: int
    """From 1; each configuration runs once in it."""
    position: int
    """From 1, over the whole series."""


def in_turn(count: int, repeats: int) -> list[list[int]]:
    """Return the order of `count` configurations in each of the repeats: ABBA BAAB and so on.

    Every other order is turned round by the Thue-Morse sequence, so that what drifts evenly, or
    evenly faster, is as much in one configuration as in the other; of more than two the first one
    changes, too.
    """
    orders = []
    for number in range(repeats):
        first = number // 2 % count if count > 2 else 0
        order = [(first + place) % count for place in range(count)]
        orders.append(order[::-1] if number.bit_count() % 2 else order)
    return orders


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % confidence interval; the ends are None where nothing was repeated."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Ratio(Interval):
    """The ratio of two groups of repeats, of their geometric means, and how sure it is."""

    p_value: float | None = None
    """Probability of a ratio as far from 1 if there is no difference; None without repeats."""
    repeats: int = 1
    """Of the group with fewer, or pairs."""
    is_paired: bool = False
    error: float = 0.0
    """Standard error of the logarithm."""
    freedom: float = 0.0
    """Degrees of freedom of that."""
    variance: float = 0.0
    """Of the logarithm, of one repeat of each group."""
    freedom_each: float = 1.0
    """Degrees of freedom that another repeat adds."""

    @property
    def has_spread(self) -> bool:
        """Whether there are enough repeats to say anything."""
        return self.repeats >= LEAST_REPEATS


def mean_of(values: Sequence[float]) -> Interval:
    """Return the mean of times of repeats and its interval by Student's t, as far as times go.

    The low end is at least 0: few repeats with much spread would put it below.
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean, None, None)
    width = _quantile(len(values) - 1) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return Interval(mean, max(mean - width, 0.0), mean + width)


def ratio_of(values: Sequence[float], to: Sequence[float]) -> Ratio | None:
    """Return the ratio of two groups of repeats by Welch's t of logarithms.

    None when a time is 0, of which nothing is a multiple.
    """
    if min(*values, *to) <= 0:
        return None
    mine, other = np.log(values), np.log(to)
    difference, repeats = float(mine.mean() - other.mean()), min(len(mine), len(other))
    if repeats < 2:
        return Ratio(math.exp(difference), None, None)
    variances = np.array([mine.var(ddof=1), other.var(ddof=1)])
    if max(np.ptp(mine), np.ptp(other)) < SAME:
        variances = np.array([SAME, SAME]) ** 2  # of which the degrees of freedom are known
    counts = np.array([len(mine), len(other)])
    shares = variances / counts
    return _judged(
        difference,
        error=math.sqrt(shares.sum()),
        repeats=repeats,
        freedom=float(shares.sum() ** 2 / (shares**2 / (counts - 1)).sum()),
        variance=float(variances.sum()),
        freedom_each=float(variances.sum() ** 2 / (variances**2).sum()),
    )


def paired_ratio(values: Sequence[float], to: Sequence[float]) -> Ratio | None:
    """Return the ratio of repeats of which those at the same place ran side by side.

    By Student's t of the differences of logarithms: what both runs of a pair have of the state of
    the machine goes out. None when a time is 0.
    """
    if min(*values, *to) <= 0:
        return None
    differences = np.log(values) - np.log(to)
    difference, repeats = float(differences.mean()), len(differences)
    if repeats < 2:
        return Ratio(math.exp(difference), None, None, is_paired=True)
    variance = max(float(differences.var(ddof=1)), SAME**2)
    return _judged(
        difference,
        error=math.sqrt(variance / repeats),
        repeats=repeats,
        freedom=repeats - 1.0,
        variance=variance,
        is_paired=True,
    )


def _judged(difference: float, *, error: float, freedom: float, **more: Any) -> Ratio:
    from scipy.special import stdtr

    width = _quantile(freedom) * error
    low, mean, high = (
        math.exp(min(difference + side, MOST_LOGARITHM)) for side in (-width, 0.0, width)
    )
    p_value = 2 * float(stdtr(freedom, -abs(difference) / error))
    return Ratio(mean, low, high, p_value=p_value, error=error, freedom=freedom, **more)


@lru_cache(maxsize=1024)
def _quantile(freedom: float, level: float = LEVEL) -> float:
    """Return the quantile of Student's t between whose two signs `level` of it lies."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected by Holm: 5 % of families without a difference have one below 5 %.

    Whatever the p-values have to do with each other.
    """
    found, most = [0.0] * len(p_values), 0.0
    for place, number in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        most = max(most, min(p_values[number] * (len(p_values) - place), 1.0))
        found[number] = most
    return found


def detectable_ratio(ratio: Ratio, *, tests: int) -> float:
    """Return the least difference that such repeats find with POWER, as a share of the time.

    It is the only one of a family of so many tests, so that it is found by the first of Holm's.
    """
    return math.expm1(min(_noncentrality(ratio.freedom, tests) * ratio.error, MOST_LOGARITHM))


def repeats_needed(ratio: Ratio, difference: float, *, tests: int) -> int | None:
    """Return how many repeats of each find such a difference with POWER; None for too many."""

    def finds(repeats: int) -> bool:
        freedom = ratio.freedom_each * (repeats - 1)
        error = math.sqrt(ratio.variance / repeats)
        return _noncentrality(freedom, tests) * error <= math.log1p(difference)

    most = LEAST_REPEATS
    while not finds(most):
        if most > MOST_REPEATS:
            return None
        most *= 2
    least = max(most // 2, LEAST_REPEATS - 1)
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if finds(middle) else (middle, most)
    return most


@lru_cache(maxsize=4096)
def _noncentrality(freedom: float, tests: int) -> float:
    """Return how many standard errors a difference must have to be found with POWER."""
    from scipy.special import nctdtrinc, ndtri

    threshold = _quantile(freedom, 1 - (1 - LEVEL) / tests)
    if freedom > MANY_DEGREES:
        return threshold + float(ndtri(POWER))
    return float(nctdtrinc(freedom, 1 - POWER, threshold))
