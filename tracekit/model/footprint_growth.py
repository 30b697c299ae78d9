"""Whether a capture was long enough: what it touched, how that grew, and what a longer one would.

A footprint grows by Heaps' law, K t^b (Heaps 1978), whose b is here that of the trace's second
half. Loads have phases, and what a phase will touch nothing of the one before tells; so the range
is from no growth at all to growth that goes on as it was, with the windows of the second half drawn
anew in runs (moving blocks bootstrap, Kunsch 1989). The share of further accesses that will find
blocks touched before is Good's and Turing's (Good 1953; Chao & Jost 2012, equation 4a).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgspec
import numpy as np

from tracekit.arrow import Integers, numbers, read_columns
from tracekit.metadata import Record
from tracekit.units import BLOCK_BYTES, format_duration, format_size

WINDOWS, RUN, DRAWS = 64, 4, 400
LEAST_BLOCKS = 64
CONFIDENCE = 0.95
ENOUGH_RATIO = 1.1
"""A footprint of which a trace twice as long has at most so much is complete."""
LONGEST = 1000.0
"""Beyond so many times the trace no length is named."""
MINUTE_NS = 60e9
GROWING, ENOUGH, UNKNOWN = "growing", "enough", "unknown"


class Estimate(Record):
    """A footprint: by Heaps' law, where nothing is new any more, and where growth goes on."""

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
        window = np.minimum(first_ns * WINDOWS // max(duration_ns, 1), WINDOWS - 1)
        return cls(np.bincount(np.maximum(window, 0), minlength=WINDOWS), duration_ns)

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
        end of its confidence, or in the last quarter; and where that is much, as on average.
        """
        drawn = sorted(self._drawn())
        most = drawn[round((1 + CONFIDENCE) / 2 * (len(drawn) - 1))]
        pace = max(most * 2, self.last(4) * 4)
        if 1 + pace / self.touched > ENOUGH_RATIO:
            pace = max(pace, self.touched)
        value = heaps(self.touched, self.last(2), times=times)
        return value, self.touched, max(self.touched + pace * (times - 1), value)

    def _drawn(self) -> Iterator[int]:
        """Yield how many could be new in the second half, by its windows in runs."""
        half = self.new_blocks[WINDOWS // 2 :]
        runs = np.convolve(half, np.ones(RUN, np.int64), "valid").tolist()
        random = Random(0)  # noqa: S311 - the same each time, no secret
        for _ in range(DRAWS):
            yield sum(random.choices(runs, k=len(half) // RUN))

    def times_until(self, blocks: int) -> tuple[float, float]:
        """Return how many times as long a trace must be to touch so many: at least, at most."""
        new = max(self.last(2), self.last(4) * 2)
        soon = 1 + (blocks - self.touched) / (2 * new) if new else math.inf
        power = exponent(self.touched, self.last(2))
        octaves = math.log2(blocks / self.touched) / power if power > 0 else math.inf
        return soon, max(soon, 2.0**octaves if octaves < math.log2(LONGEST) else LONGEST)


def exponent(touched: int, new: int) -> float:
    """Return Heaps' exponent of a footprint of which so many blocks are new in the second half."""
    return math.log2(touched / (touched - new)) if new < touched else 1.0


def heaps(touched: int, new: int, *, times: float) -> float:
    """Return the footprint of a trace so many times as long."""
    return touched * math.pow(times, exponent(touched, new))


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
    first_ns, last_ns, accesses = _read(blocks)
    found = Footprint(
        touched_bytes=len(first_ns) * BLOCK_BYTES,
        capacity_bytes=capacity_bytes,
        duration_ns=int(last_ns.max(initial=0)),
        known_access_ratio=known_accesses(accesses),
    )
    if found.duration_ns <= 0 or len(first_ns) < LEAST_BLOCKS:
        reason = "it has no times" if found.duration_ns <= 0 else "it touched too few blocks"
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


def _read(blocks: Path) -> tuple[Integers, Integers, Integers]:
    columns = list(read_columns(blocks, ["first_ns", "last_ns", "reads", "writes"]))
    first, last, reads, writes = (
        np.concatenate([np.empty(0, np.int64), *(numbers(one[name]) for one in columns)])
        for name in ("first_ns", "last_ns", "reads", "writes")
    )
    return first, last, reads + writes


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
        yield (
            f"The capacity, {format_size(found.capacity_bytes)}, is {ratio:,.3g} times what the"
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
