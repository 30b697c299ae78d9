"""Confidence intervals over repeats."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.95
SAME = 1e-9  # logarithms that differ by less are of the same time


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % confidence interval; the ends are None where nothing was repeated."""

    mean: float
    low: float | None
    high: float | None


def mean_of(values: Sequence[float]) -> Interval:
    """Return the mean of times of repeats and its interval by Student's t, as far as times go.

    The low end is at least 0: few repeats with much spread would put it below.
    """
    import numpy as np
    from scipy import stats

    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean, None, None)
    error = float(stats.sem(values))
    if error == 0:
        return Interval(mean, mean, mean)
    low, high = stats.t.interval(LEVEL, len(values) - 1, loc=mean, scale=error)
    return Interval(mean, max(float(low), 0.0), float(high))


def ratio_of(values: Sequence[float], to: Sequence[float]) -> Interval | None:
    """Return the ratio of two groups of repeats, and its interval by Welch's t of logarithms.

    The ratio is that of the geometric means. None when a time is 0, of which nothing is a multiple.
    """
    import numpy as np
    from scipy import stats

    if min(*values, *to) <= 0:
        return None
    mine, other = np.log(values), np.log(to)
    ratio = math.exp(float(mine.mean() - other.mean()))
    if len(values) < 2 or len(to) < 2:
        return Interval(ratio, None, None)
    if max(np.ptp(mine), np.ptp(other)) < SAME:
        return Interval(ratio, ratio, ratio)
    with warnings.catch_warnings():
        # It warns where one of the groups does not spread: its part of the error is then nothing.
        warnings.simplefilter("ignore", RuntimeWarning)
        found = stats.ttest_ind(mine, other, equal_var=False).confidence_interval(LEVEL)
    return Interval(ratio, math.exp(found.low), math.exp(found.high))
