"""Whether a capture was long enough: what it touched, how that grew, and what a longer one would.

A footprint is taken to grow on as in the trace's last quarter: of Heaps' law, Chao1, ACE, Good and
Toulmin with and without smoothing, and straight lines, this was the closest on the halves of traces
(docs/measurements.md, "Footprints"). Loads have phases, and what a phase will touch nothing of the
one before tells; so the range is from no growth at all to growth faster than it was, with the
windows of the second half drawn anew in runs (moving blocks bootstrap, Kunsch 1989), and with its
trend where each quarter of the trace had more than the one before. The share of
further accesses that will find blocks touched before is Good's and Turing's (Good 1953; Chao & Jost
2012, equation 4a).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgspec
import numpy as np

from tracekit.arrow import Integers, numbers, read_columns, row_count
from tracekit.metadata import Record
from tracekit.units import BLOCK_BYTES, counted, format_duration, format_size

WINDOWS, RUN, DRAWS = 64, 4, 400
LEAST_BLOCKS = 64
CONFIDENCE = 0.95
ENOUGH_RATIO = 1.1
"""A footprint of which a trace twice as long has at most so much is complete."""
FASTER = 1.25
"""How many times as fast as ever a footprint that grows may grow on; fewer did not cover all."""
LONGEST = 1000.0
"""Beyond so many times the trace no length is named."""
MINUTE_NS = 60e9
GROWING, ENOUGH, UNKNOWN = "growing", "enough", "unknown"


class Estimate(Record):
    """A footprint: where growth goes on as at the end, where nothing is new, where it speeds up."""

    bytes: int
    low_bytes: int
    high_bytes: int


class Footprint(Record, kw_only=True):
    """What the trace touched, how that grew, and whether it is enough for a capacity."""

    touched_bytes: int
    capacity_bytes: int
    duration_ns: int = 0
    growth_bytes_per_min: float = 0.0
    """At the end: in the last quarter of the trace."""
    known_access_ratio: float = 0.0
    """Which share of further accesses would go to blocks that the trace has touched."""
    doubled: Estimate | None = None
    """The footprint of a trace twice as long."""
    verdict: str = UNKNOWN
    """enough, growing or unknown"""
    capture_longer_ns: list[int] | None = None
    """How much longer to capture, from and to: until the capacity is touched, or as long again;
    None where no length is known to do."""
    sentences: list[str] = msgspec.field(default_factory=list)


@dataclass(frozen=True)
class Growth:
    """Blocks that were touched first in each of WINDOWS windows of the trace."""

    new_blocks: Integers
    duration_ns: int

    @classmethod
    def of(cls, first_ns: Integers, duration_ns: int) -> Growth:
        """Count them."""
        window = first_ns * WINDOWS
        window //= max(duration_ns, 1)
        np.clip(window, 0, WINDOWS - 1, out=window)
        return cls(np.bincount(window, minlength=WINDOWS), duration_ns)

    @property
    def touched(self) -> int:
        """All blocks."""
        return int(self.new_blocks.sum())

    def last(self, parts: int) -> int:
        """Return how many are new in the last one of so many parts of the trace."""
        return int(self.new_blocks[-(WINDOWS // parts) :].sum())

    def at(self, times: float) -> tuple[float, float, float]:
        """Return how many a trace so many times as long touches, and from where to where.

        At least nothing is new any more. At most growth goes on as in the second half, at the upper
        end of its confidence, or in the last quarter; and where that is much, faster than these,
        than on average and than its trend.
        """
        drawn = sorted(self._drawn())
        most = drawn[round((1 + CONFIDENCE) / 2 * (len(drawn) - 1))]
        pace: float = max(most * 2, self.last(4) * 4)
        if 1 + pace / self.touched > ENOUGH_RATIO:
            pace = FASTER * max(pace, self.touched, self._trend(times))
        value = self.touched + self.last(4) * 4 * (times - 1)
        return value, self.touched, self.touched + pace * (times - 1)

    def _trend(self, times: float) -> float:
        """Return how many are new in as long again where each quarter had more than the one before.

        The pace goes on rising as from the third quarter to the last; 0 where there is no trend.
        """
        quarters = self.new_blocks.reshape(4, -1).sum(axis=1).tolist()
        if not quarters[0] < quarters[1] < quarters[2] < quarters[3]:
            return 0
        # The middle of the time to come is so many quarters behind the middle of the last one.
        ahead = 0.5 + 4 * (times - 1) / 2
        return float(4 * (quarters[3] + ahead * (quarters[3] - quarters[2])))

    def _drawn(self) -> Iterator[int]:
        """Yield how many could be new in the second half, by its windows in runs."""
        half = self.new_blocks[WINDOWS // 2 :]
        runs = np.convolve(half, np.ones(RUN, np.int64), "valid").tolist()
        random = Random(0)  # noqa: S311 - the same each time, no secret
        for _ in range(DRAWS):
            yield sum(random.choices(runs, k=len(half) // RUN))

    def times_until(self, blocks: int) -> tuple[float, float]:
        """Return how many times as long a trace must be to touch so many: at least, at most.

        At the faster and the slower pace of the second half and of the last quarter.
        """
        paces = sorted((self.last(2) * 2, self.last(4) * 4))
        slow, fast = (1 + (blocks - self.touched) / one if one else math.inf for one in paces)
        return fast, min(slow, LONGEST)


def known_accesses(accesses: Integers) -> float:
    """Return which share of further accesses goes to blocks touched before (Chao & Jost 2012)."""
    count = int(accesses.sum())
    once, twice = (int((accesses == touches).sum()) for touches in (1, 2))
    if not count or not once:
        return 1.0
    rest = (count - 1) * once
    return 1 - once / count * (rest / (rest + 2 * twice) if rest + twice else 1.0)


def footprint(blocks: Path, capacity_bytes: int) -> Footprint:
    """Return what a trace touched, by its blocks.parquet, and whether it is enough."""
    first_ns, duration_ns, accesses = _read(blocks)
    found = Footprint(
        touched_bytes=len(first_ns) * BLOCK_BYTES,
        capacity_bytes=capacity_bytes,
        duration_ns=duration_ns,
        known_access_ratio=known_accesses(accesses),
    )
    if found.duration_ns <= 0 or len(first_ns) < LEAST_BLOCKS:
        # Of few blocks all may have been touched at one time.
        few = f"it touched {counted(len(first_ns), 'block')}, and {LEAST_BLOCKS} are needed"
        reason = few if len(first_ns) < LEAST_BLOCKS else "it has no times"
        found.sentences = [f"whether the capture is long enough cannot be said: {reason}"]
        return found
    growth = Growth.of(first_ns, found.duration_ns)
    value, low, high = (round(one) * BLOCK_BYTES for one in growth.at(2))
    found.doubled = Estimate(bytes=value, low_bytes=low, high_bytes=high)
    found.growth_bytes_per_min = growth.last(4) * 4 * BLOCK_BYTES * MINUTE_NS / found.duration_ns
    is_enough = high <= ENOUGH_RATIO * found.touched_bytes
    found.verdict = ENOUGH if is_enough else GROWING
    if not is_enough:
        found.capture_longer_ns = _longer(growth, capacity_bytes // BLOCK_BYTES)
    found.sentences = list(_sentences(found))
    return found


def _read(blocks: Path) -> tuple[Integers, int, Integers]:
    """Return when each block was touched first, when the last one last, and how often each was."""
    first_ns, accesses = np.empty((2, row_count(blocks)), np.int64)
    last_ns = filled = 0
    for column in read_columns(blocks, ["first_ns", "last_ns", "reads", "writes"]):
        part = slice(filled, filled + len(column["reads"]))
        first_ns[part] = numbers(column["first_ns"])
        accesses[part] = numbers(column["reads"]) + numbers(column["writes"])
        last_ns = max(last_ns, int(numbers(column["last_ns"]).max(initial=0)))
        filled = part.stop
    return first_ns, last_ns, accesses


def _longer(growth: Growth, capacity: int) -> list[int] | None:
    """Return how much longer to capture, until the capacity is touched, or as long again."""
    times = (2.0, 2.0) if capacity <= growth.touched else growth.times_until(capacity)
    if times[0] > LONGEST:
        return None
    return [round((min(one, LONGEST) - 1) * growth.duration_ns) for one in times]


def _sentences(found: Footprint) -> Iterator[str]:
    """Yield what the first lines of an answer say: first whether the capacity exceeds the trace."""
    touched, doubled = format_size(found.touched_bytes), found.doubled
    lasts = format_duration(found.duration_ns)
    if doubled is None:
        return
    more = (
        f"twice as long would touch {format_size(doubled.bytes)}"
        f" ({format_size(doubled.low_bytes)} to {format_size(doubled.high_bytes)})"
    )
    if found.capacity_bytes > found.touched_bytes > 0:
        ratio = found.capacity_bytes / found.touched_bytes
        times = f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"
        yield (
            f"The capacity, {format_size(found.capacity_bytes)}, is {times} times what the"
            f" trace touched ({touched} in {lasts}): the gain is that of all this on NVM, and says"
            " nothing of what else would fill it."
        )
    if found.verdict == ENOUGH:
        yield f"The capture is long enough: it touched {touched} in {lasts}, and {more}."
        return
    yield (
        f"The capture may be too short: it touched {touched} in {lasts}, growing by"
        f" {format_size(found.growth_bytes_per_min)} a minute at its end, and"
        f" {more}{_advice(found)}."
    )


def _advice(found: Footprint) -> str:
    if found.capture_longer_ns is None:
        return "; no length of capture is known to touch the whole capacity"
    low, high = (format_duration(one) for one in found.capture_longer_ns)
    if found.capacity_bytes <= found.touched_bytes:
        return f": capture at least {low} longer and compare the answers"
    span = low if low == high else f"{low} to {high}"
    return f": until the capacity is touched, capture {span} longer"
