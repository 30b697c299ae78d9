"""What the repeats of a sweep say: when a run was steady, which rates stand out, which differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, groupby
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.repeats import Interval, Ratio, holm, mean_of, paired_ratio, ratio_of

BATCH = 5
"""Intervals of a batch of MSER-5."""
LEAST_BATCHES = 8
"""Of a run that can be judged."""
LEFT = 5
"""Batches that a cut leaves at least."""
MEANS = 20
"""Batches whose means give a run's confidence interval."""
FAR = 3.5
LEAST_JUDGED = 5
"""Repeats, of which one can stand out."""
NORMAL_MAD = 0.6745  # the median absolute deviation of normal values, in standard deviations
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Steady:
    """From when a run was steady, and the 95 % interval of its rate by what came then.

    There is none where the rate of the whole run, warm-up and all, is not in it.
    """

    steady_from_ns: int | None = None
    batch_low_per_second: float | None = None
    batch_high_per_second: float | None = None


def steady_state(timeline: Sequence[Row], rate: float) -> Steady:
    """Return when a run was steady; None: not within its first half, or too short to say.

    `timeline` are counts up to times in ns, `rate` is that of the whole run: of its rows come the
    shape alone. The warm-up is cut by MSER-5 (White, Cobb and Spratt, A comparison of five
    steady-state truncation heuristics for simulation, Winter Simulation Conference 2000): of all
    cuts of batches of 5 the one with the least squared error of the mean of what is left. A cut in
    the second half says that the run was too short. The interval is of 20 batch means by Student's
    t (Schmeiser, Batch size effects in the analysis of simulation output, 1982).
    """
    times = np.array([0, *(row["end_ns"] for row in timeline[:-1])], float)
    counts = np.array([0, *(row["operations"] for row in timeline[:-1])], float)
    if len(times) <= BATCH * LEAST_BATCHES or counts[-1] == 0 or np.diff(times).min() <= 0:
        return Steady()
    rates = np.diff(counts) / np.diff(times) * (rate * times[-1] / counts[-1])
    cut = BATCH * mser(rates[: len(rates) // BATCH * BATCH].reshape(-1, BATCH).mean(axis=1))
    if cut > len(rates) / 2:
        return Steady()
    found = batch_means(rates[cut:])
    start_ns = int(times[cut])
    if found.low is None or found.high is None or not found.low <= rate <= found.high:
        return Steady(start_ns)
    return Steady(start_ns, found.low, found.high)


def mser(values: NDArray[np.float64]) -> int:
    """Return how many of the first values to cut by the marginal standard error rule.

    Five are left at least: of fewer the error is small by chance (Hoad, Robinson and Davies,
    Automating warm-up length estimation, 2010).
    """
    left = np.arange(len(values), 0, -1)
    sums = np.cumsum(values[::-1])[::-1]
    squares = np.cumsum((values**2)[::-1])[::-1]
    errors = np.maximum(squares - sums**2 / left, 0) / left**2
    return int(np.argmin(errors[: -LEFT + 1]))


def batch_means(rates: NDArray[np.float64]) -> Interval:
    """Return the mean of a steady series and its 95 % interval by the means of 20 batches."""
    each = len(rates) // MEANS
    if each == 0:
        return Interval(float(rates.mean()), None, None)
    return mean_of(rates[-each * MEANS :].reshape(MEANS, each).mean(axis=1).tolist())


def outliers(rates: Sequence[float]) -> list[bool]:
    """Return which rates stand out: modified z-scores of logarithms above 3.5, of five and more.

    By the median absolute deviation (Iglewicz and Hoaglin, How to detect and handle outliers,
    1993). They are marked, never left out.
    """
    if len(rates) < LEAST_JUDGED or min(rates) <= 0:
        return [False] * len(rates)
    from scipy.stats import median_abs_deviation

    logarithms = np.log(rates)
    spread = float(median_abs_deviation(logarithms))
    away = np.abs(logarithms - np.median(logarithms))
    return [bool(spread and NORMAL_MAD * far > FAR * spread) for far in away]


@dataclass(frozen=True)
class Comparison:
    """The ratio of the rates of two targets under one setting; None where there is none."""

    run_count: int
    is_paired: bool
    ratio: float | None
    ratio_low: float | None = None
    ratio_high: float | None = None
    p_value: float | None = None
    corrected_p_value: float | None = None


SETTING = ("personality", "threads", "files", "io_bytes", "settings")


def compare_targets(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a row for each setting and two of its targets.

    `rows` are those of FILE_RUNS of whole runs without copies. p-values are corrected by Holm over
    all of them.
    """
    compared = list(_pairs(rows))
    known = [found.p_value for _, found in compared if found.p_value is not None]
    corrected = iter(holm(known))
    return [
        names
        | asdict(found)
        | {"corrected_p_value": None if found.p_value is None else next(corrected)}
        for names, found in compared
    ]


def _pairs(rows: Sequence[Row]) -> Iterator[tuple[dict[str, Any], Comparison]]:
    """Yield each setting's ordered pairs of targets; which is named first is by their names."""
    key = itemgetter("personality", "threads", "settings")
    for _, group in groupby(sorted(rows, key=key), key=key):
        runs = list(group)
        names = sorted({row["target"] for row in runs})
        for pair in combinations(names, 2):
            rates = [
                {r["run"]: r["steps_per_second"] for r in runs if r["target"] == name}
                for name in pair
            ]
            same = {name: runs[0][name] for name in SETTING}
            yield same | {"target": pair[0], "other": pair[1]}, compare(*rates)


def compare(mine: Mapping[int, float], other: Mapping[int, float]) -> Comparison:
    """Return the ratio of rates by repeat: of pairs where both have the same repeats.

    Those of one number have the same plan and ran one after the other.
    """
    is_paired = mine.keys() == other.keys()
    count = min(len(mine), len(other))
    values = [[rates[number] for number in sorted(rates)] for rates in (mine, other)]
    found: Ratio | None = (paired_ratio if is_paired else ratio_of)(*values)
    if found is None:
        return Comparison(count, is_paired, None)
    return Comparison(count, is_paired, found.mean, found.low, found.high, found.p_value)
