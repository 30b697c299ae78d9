"""The latencies of a step: every completion counted, in memory that does not grow with them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.plans.block_plan import OPERATIONS
from tracekit.replay.completions import STATUSES, read_records

BITS = 7  # 128 buckets an octave, as everywhere
ALL = "all"
PARTS_MAX = 100_000
LEAST_PART = 50
"""Requests of a part: few enough to lie between two pauses of a busy machine, enough for a rate."""
DEPTHS_OF_PART = 4
"""After a pause all requests in flight may be done at once: a part has several times as many."""
DONE, FAILED = STATUSES.index("done"), STATUSES.index("failed")
Integers = npt.NDArray[np.int64]


def bucket_of(values: Integers) -> Integers:
    """Return the log-linear bucket of each value from 0 up, as the macro `log_bucket` does."""
    # Of a double below 2^53 the exponent is exact.
    shift = np.maximum(np.frexp(values.astype(np.float64))[1].astype(np.int64) - 1 - BITS, 0)
    return (shift << BITS) + (values >> shift)


def bucket_low(bucket: int) -> int:
    """Return the smallest value of a bucket."""
    if bucket < 2 << BITS:
        return bucket
    shift = (bucket >> BITS) - 1
    return (bucket - (shift << BITS)) << shift


@dataclass
class Latencies:
    """Count, mean, deviation, extremes and histogram of one operation's service times in ns."""

    count: int = 0
    failed: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """Sum of the squared distances from the mean."""
    buckets: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Bucket to its count and the largest value seen in it."""
    low: int = 0

    def add(self, values: Integers) -> None:
        """Count service times; means merge by Chan's formula, which loses no digits."""
        if not len(values):
            return
        ordered = np.sort(values)
        self.low = int(ordered[0]) if not self.count else min(self.low, int(ordered[0]))
        mean = float(ordered.mean())
        squares = float(np.square(ordered - mean).sum())
        total = self.count + len(ordered)
        step = mean - self.mean
        self.squares += squares + step * step * self.count * len(ordered) / total
        self.mean += step * len(ordered) / total
        self.count = total
        numbers = bucket_of(ordered)
        ends = np.append(np.flatnonzero(np.diff(numbers)), len(numbers) - 1)
        for number, count, high in zip(
            numbers[ends].tolist(), np.diff(ends, prepend=-1).tolist(), ordered[ends].tolist(),
            strict=True,
        ):  # fmt: skip
            before, highest = self.buckets.get(number, (0, 0))
            self.buckets[number] = (before + count, max(highest, high))

    @property
    def deviation(self) -> float:
        """Standard deviation of the sample; 0 of one request."""
        return math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else 0.0

    @property
    def high(self) -> int:
        """The longest."""
        return max((high for _, high in self.buckets.values()), default=0)

    def percentile(self, ratio: float) -> int:
        """Return the nearest rank, as the largest value seen in its bucket."""
        rank = max(1, math.ceil(ratio * self.count))
        seen = 0
        for number in sorted(self.buckets):
            count, high = self.buckets[number]
            seen += count
            if seen >= rank:
                return high
        return 0

    def as_dict(self) -> dict[str, Any]:
        """Return the content for JSON, the histogram as [bucket, count, largest] in order."""
        return {
            "requests": self.count,
            "failed": self.failed,
            "mean_ns": self.mean,
            "deviation_ns": self.deviation,
            "min_ns": self.low,
            "p50_ns": self.percentile(0.5),
            "p99_ns": self.percentile(0.99),
            "p99_9_ns": self.percentile(0.999),
            "max_ns": self.high,
            "histogram": [[number, *self.buckets[number]] for number in sorted(self.buckets)],
        }


@dataclass
class Pace:
    """How fast a step went: as a whole, and in its parts of equally many requests."""

    requests: int
    depth: int
    first_ns: int | None = None
    last_ns: int = 0
    seen: int = 0
    marks: list[int] = field(default_factory=list)

    def add(self, done: Any) -> None:
        """Take the requests that were done, in order of completion."""
        if not len(done):
            return
        start = int(done["submit_ns"].min())
        self.first_ns = start if self.first_ns is None else min(self.first_ns, start)
        self.last_ns = max(self.last_ns, int(done["complete_ns"].max()))
        places = np.arange(-self.seen % self._each, len(done), self._each)
        self.marks += done["complete_ns"][places].tolist()
        self.seen += len(done)

    @property
    def elapsed_ns(self) -> int:
        """From the first submission to the last completion."""
        return self.last_ns - (self.first_ns or 0)

    @property
    def usual_iops(self) -> float:
        """Return the rate that a quarter of the parts exceed; pauses are in the others."""
        if len(self.marks) < 3:
            return self.seen / max(self.elapsed_ns, 1) * 1e9
        part_ns = float(np.quantile(np.diff(self.marks), 0.25, method="higher"))
        return self._each / max(part_ns, 1.0) * 1e9

    @property
    def _each(self) -> int:
        return max(LEAST_PART, self.requests // PARTS_MAX, DEPTHS_OF_PART * self.depth)


def read_latencies(
    completions: Path, requests: int, *, depth: int
) -> tuple[dict[str, Latencies], Pace]:
    """Return the service times by operation and of `all`, and how fast `requests` went.

    InputError for a file that is no file of completions.
    """
    found: dict[str, Latencies] = {ALL: Latencies()}
    pace = Pace(requests, depth)
    for rows in read_records(completions):
        done = rows[rows["status"] == DONE]
        _add(found, rows[rows["status"] == FAILED], done)
        pace.add(done)
    return found, pace


def _add(found: dict[str, Latencies], failed: Any, done: Any) -> None:
    service = (done["complete_ns"] - done["submit_ns"]).astype(np.int64)
    found[ALL].add(service)
    found[ALL].failed += len(failed)
    for number in np.unique(np.append(failed["operation"], done["operation"])).tolist():
        one = found.setdefault(OPERATIONS[number], Latencies())
        one.failed += int((failed["operation"] == number).sum())
        one.add(service[done["operation"] == number])
