"""Mean, deviation and correlation with the throughput of each event of a workload."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

LEAST_CORRELATED = 3
LEAST_INTERVAL = 4
CONFIDENCE = 0.95
SAME = 1e-12
"""A spread that is less of its mean is none: counts and rates never differ by so little."""


@dataclass(frozen=True)
class Statistics:
    """One event over the runs of a workload; None where the runs are too few or all alike."""

    event: str
    runs: int
    mean: float
    deviation: float | None
    least_running_ratio: float | None
    correlation: float | None = None
    correlation_low: float | None = None
    correlation_high: float | None = None
    p_value: float | None = None
    rank: int | None = None

    @property
    def surely(self) -> float:
        """How far from 0 the correlation is at least; 0 when its interval holds 0."""
        if self.correlation_low is None or self.correlation_high is None:
            return 0.0
        if self.correlation_low * self.correlation_high <= 0:
            return 0.0
        return min(abs(self.correlation_low), abs(self.correlation_high))


def statistics_of(rows: Sequence[Mapping[str, Any]]) -> list[Statistics]:
    """Return the statistics of each event of one workload's rows, in their order, ranked."""
    events = list(dict.fromkeys(row["event"] for row in rows))
    found = []
    for event in events:
        mine = [row for row in rows if row["event"] == event and row["count"] is not None]
        if mine:
            found.append(_of(event, mine))
    order = sorted(
        (one for one in found if one.correlation_low is not None),
        key=lambda one: (-one.surely, -abs(one.correlation or 0.0), one.event),
    )
    ranks = {one.event: number for number, one in enumerate(order, 1)}
    return [Statistics(**{**asdict(one), "rank": ranks.get(one.event)}) for one in found]


def _of(event: str, rows: Sequence[Mapping[str, Any]]) -> Statistics:
    import numpy as np

    counts = np.array([row["count"] for row in rows], float)
    shares = [row["running_ratio"] for row in rows if row["running_ratio"] is not None]
    paired = [row for row in rows if row["throughput"] is not None]
    told = correlated([row["count"] for row in paired], [row["throughput"] for row in paired])
    return Statistics(
        event,
        len(rows),
        float(counts.mean()),
        float(counts.std(ddof=1)) if len(counts) > 1 else None,
        min(shares, default=None),
        *told,
    )


def correlated(
    counts: Sequence[float], rates: Sequence[float]
) -> tuple[float | None, float | None, float | None, float | None]:
    """Return Pearson's r, both ends of its 95 % interval (Fisher's z) and its p-value.

    All None below three pairs or where one of both never changes; the ends below four pairs.
    """
    if len(counts) < LEAST_CORRELATED or _is_constant(counts) or _is_constant(rates):
        return None, None, None, None
    # scipy's statistics would take seconds to load on a busy machine; its special functions do not.
    import numpy as np
    from scipy.special import betainc

    r = float(np.clip(np.corrcoef(counts, rates)[0, 1], -1, 1))
    # Student's t of r with n - 2 degrees of freedom, from both sides.
    p_value = float(betainc(len(counts) / 2 - 1, 0.5, 1 - r * r))
    if len(counts) < LEAST_INTERVAL:
        return r, None, None, p_value
    if abs(r) >= 1:
        # On a line z is infinite, and the interval a point.
        return r, r, r, p_value
    reach = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) / math.sqrt(len(counts) - 3)
    low, high = (math.tanh(math.atanh(r) + side * reach) for side in (-1, 1))
    return r, low, high, p_value


def _is_constant(values: Sequence[float]) -> bool:
    return max(values) - min(values) <= SAME * max(map(abs, values)) or not all(
        map(math.isfinite, values)
    )
