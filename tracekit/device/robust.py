"""What a series of times shows when its values depend on each other, and when it is steady.

Requests that follow each other share what slowed the one before: a run of n requests says less of
the mean than n independent ones. A series is kept as the means of equally many requests in
turn, so that its memory does not grow with the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
BATCHES_MAX = 1 << 14
BLOCKS = 25
"""Of the robust mean: a pause of the machine lies in one or two of them."""
LEAST_OF_BLOCK = 8
WINDOW = 5
RANGE_RATIO = 0.2
SLOPE_RATIO = 0.1


@dataclass
class Series:
    """Times in the order in which they came, as means of batches."""

    each: int = 1
    means: list[float] = field(default_factory=list)
    rest: Floats = field(default_factory=lambda: np.zeros(0))

    def add(self, values: npt.NDArray[np.int64]) -> None:
        """Take the next values; when there are many batches, two become one."""
        given = np.concatenate([self.rest, values.astype(np.float64)])
        whole = len(given) // self.each * self.each
        self.means += given[:whole].reshape(-1, self.each).mean(axis=1).tolist()
        self.rest = given[whole:]
        while len(self.means) > BATCHES_MAX:
            self._double()

    def _double(self) -> None:
        even = len(self.means) // 2 * 2
        odd = np.repeat(self.means[even:], self.each)
        self.means = np.array(self.means[:even]).reshape(-1, 2).mean(axis=1).tolist()
        self.each *= 2
        # A batch that has no partner is taken up again with what follows.
        self.rest = np.concatenate([odd, self.rest])

    def values(self) -> Floats:
        """Return the means, of fewer values where there are not many."""
        return np.array(self.means if self.means else self.rest)

    @property
    def error(self) -> float | None:
        """Standard error of the mean, autocorrelation included; None of fewer than 4 values."""
        values = self.values()
        if len(values) < 4:
            return None
        deviation = float(values.std(ddof=1))
        return deviation * math.sqrt(correlation_time(values) / len(values))

    @property
    def robust_mean(self) -> float | None:
        """Median of the means of blocks that follow each other; None of an empty series.

        It is the mean of what happens all the time, however rare, and not of a few pauses.
        """
        values = self.values()
        if not len(values):
            return None
        # Few values a batch make few blocks, so that each has enough to have a mean.
        blocks = max(1, min(BLOCKS, len(values) * self.each // LEAST_OF_BLOCK, len(values)))
        return float(np.median([part.mean() for part in np.array_split(values, blocks)]))


def correlation_time(values: Floats) -> float:
    """Return how many values of a series say as much as one that is independent, from 1.

    1 + 2 times the sum of the autocorrelations, cut where a pair of neighbours is no longer
    positive (Geyer's initial positive sequence, Statistical Science 1992).
    """
    centred = values - values.mean()
    count = len(centred)
    spectrum = np.fft.rfft(centred, 2 * count)
    sums = np.fft.irfft(spectrum * spectrum.conj(), 2 * count)[:count]
    if sums[0] <= 0:
        return 1.0
    pairs = sums[: count // 2 * 2].reshape(-1, 2).sum(axis=1) / sums[0]
    ends = np.flatnonzero(pairs <= 0)
    kept = pairs[: int(ends[0]) if len(ends) else len(pairs)]
    return max(1.0, min(2 * float(kept.sum()) - 1, count))


@dataclass(frozen=True)
class SteadyState:
    """Verdict over the last rounds, by the steady-state test of SNIA's PTS."""

    rounds: int
    range_ratio: float
    """Most less least of the last five, of their average: at most 20 %."""
    slope_ratio: float
    """Rise of the line through them over the five, of their average: at most 10 %."""

    @property
    def is_reached(self) -> bool:
        """Whether there were enough rounds, and the last ones neither spread nor drift."""
        return (
            self.rounds >= WINDOW
            and self.range_ratio <= RANGE_RATIO
            and self.slope_ratio <= SLOPE_RATIO
        )


def steady_state(rates: Sequence[float]) -> SteadyState:
    """Judge the rates of rounds in their order (SNIA Solid State Storage PTS 2.0.2, 2.1.27)."""
    window = np.array(rates[-WINDOW:], float)
    average = float(window.mean()) if len(window) else 0.0
    if len(window) < 2 or average <= 0:
        return SteadyState(len(rates), math.inf, math.inf)
    slope = float(np.polyfit(np.arange(len(window)), window, 1)[0])
    spread = float(window.max() - window.min())
    return SteadyState(len(rates), spread / average, abs(slope) * (len(window) - 1) / average)
