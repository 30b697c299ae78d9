"""What is measured, step by step: study B, section 3, and what a device profile needs beside it.

Of a step every completion is counted, in memory that does not grow with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.device.robust import Series
from tracekit.errors import UsageError
from tracekit.plans import Records, block_plan
from tracekit.plans.block_plan import OPERATIONS
from tracekit.replay.completions import STATUSES, read_records
from tracekit.replay.routes import DEFAULT
from tracekit.stolen_time import Stretches
from tracekit.units import PAGE_BYTES, SECTOR_BYTES

FILL_BYTES = 1 << 20
FILL_DEPTH = 32
FILL_MAX = 200
"""Percent: SNIA's PTS writes twice the capacity before it measures."""
PRECONDITION_DEPTH = 256
PRECONDITION_WRITES = 0.2
SIZES_BYTES = (4096, 16384, 65536, 262144, 1048576)
DEPTH_MAX = 1024
REQUESTS_MAX = 1 << 40
LEAST = 200
"""Requests of a step however small the scale: fewer say nothing about a device."""
ROUNDS_MAX = 25
"""Rounds in which a device may become steady (SNIA PTS)."""
ROUND = "round"
ROUND_DEPTH = 32
MIXED_BYTES = (65536, 1048576)
MIXED_DEPTHS = (1, 4, 16)
QUICK_LENGTHS, QUICK_FLUSHES = 10, 20
"""Times a hundredth of lengths and flushes is what `quick` leaves: a journal's time is theirs."""
CELL_DEPTHS = 20
"""A cell of the surface has so many requests for each in flight, so that its ends do not count."""


@dataclass(frozen=True)
class Step:
    """One run of requests of one length at one depth.

    `is_flushed` puts a flush after each request, `is_forced` makes writes FUA.
    """

    kind: str
    requests: int
    write_ratio: float
    depth: int = 1
    length_bytes: int = PAGE_BYTES
    is_sequential: bool = False
    is_flushed: bool = False
    is_forced: bool = False

    @property
    def writes(self) -> bool:
        """Whether the step changes what is on the device, or its cache."""
        return self.write_ratio > 0 or self.is_flushed

    @property
    def label(self) -> str:
        """The name in the progress line."""
        kind, length = self.kind.replace("_", " "), self.length_bytes // 1024
        return f"{kind}, {length} KiB, {self.write_ratio:.0%} writes, depth {self.depth}"


@dataclass(frozen=True)
class Amounts:
    """How many requests each step has before `scale`; the defaults are study B's where it says.

    `fill_percent` of the size is written in sequence first and is not scaled: what was never
    written is not read from the medium.
    """

    fill_percent: int = 200
    precondition: int = 1_000_000
    writes: int = 1_000_000
    reads: int = 5_000_000
    sizes: int = 5_000
    flushes: int = 5_000
    surface: int = 100_000
    write_percents: tuple[int, ...] = (0, 20, 40, 60, 80, 100)
    depths: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    scale: float = 1.0

    def __post_init__(self) -> None:
        """Check what a user gave."""
        if not 1e-6 <= self.scale <= 1e3:
            raise UsageError(f"--scale {self.scale:g}: not from 0.000001 to 1000")
        if not 0 <= self.fill_percent <= FILL_MAX:
            raise UsageError(f"--fill {self.fill_percent}: not a percentage from 0 to {FILL_MAX}")
        for option in ("precondition", "writes", "reads", "sizes", "flushes", "surface"):
            count = getattr(self, option)
            least = 0 if option == "precondition" else 1
            if not least <= count <= REQUESTS_MAX:
                raise UsageError(f"--{option} {count}: not a number of requests")
            if count * self.scale > REQUESTS_MAX:
                raise UsageError(f"--scale {self.scale:g}: too many requests of --{option} {count}")
        for option, values, low, high in (
            ("write-percents", self.write_percents, 0, 100),
            ("depths", self.depths, 1, DEPTH_MAX),
        ):
            if not values or any(not low <= value <= high for value in values):
                given = ",".join(map(str, values))
                raise UsageError(f"--{option} {given}: not numbers from {low} to {high}")
            if len(set(values)) != len(values):
                raise UsageError(f"--{option}: a number stands there twice")

    def scaled(self, count: int) -> int:
        """Return a count of requests at this scale, never so few that they say nothing."""
        return max(min(count, LEAST), round(count * self.scale))

    def quick(self) -> Amounts:
        """Return amounts of a minute or so: a hundredth, and a coarser surface."""
        return replace(
            self,
            fill_percent=min(self.fill_percent, 100),
            scale=self.scale / 100,
            sizes=self.sizes * QUICK_LENGTHS,
            flushes=self.flushes * QUICK_FLUSHES,
            write_percents=(0, 50, 100),
            depths=(1, 4, 16, 64),
        )


def steps(amounts: Amounts, size_bytes: int, *, is_emulated: bool = False) -> tuple[Step, ...]:
    """Return all steps in order, for a device of which `size_bytes` are used.

    An emulated device takes its times whatever was written before: it needs no rounds, and what
    its lengths cost is in its profile. Of the rounds only so many are made as it takes to be
    steady.
    """
    filled = min(amounts.fill_percent, 100) if is_emulated else amounts.fill_percent
    found = _steps(replace(amounts, fill_percent=filled), size_bytes)
    if is_emulated:
        return tuple(found)
    return tuple(one for step in found for one in (*_rounds(amounts, before=step), step)) + tuple(
        _mixed(amounts, size_bytes)
    )


def _rounds(amounts: Amounts, *, before: Step) -> Iterator[Step]:
    """Yield the rounds that stand before the first measurement."""
    if amounts.precondition and before.kind == "random_write":
        count = max(amounts.scaled(amounts.surface), CELL_DEPTHS * ROUND_DEPTH)
        yield from [Step(ROUND, count, 1.0, ROUND_DEPTH)] * ROUNDS_MAX


def _mixed(amounts: Amounts, size_bytes: int) -> Iterator[Step]:
    """Yield the cells of the distributions that are not in the surface: of longer requests."""
    for length in MIXED_BYTES:
        count = amounts.scaled(max(1, amounts.sizes * MIXED_BYTES[0] // length))
        for percent in sorted(amounts.write_percents) if length <= size_bytes // 4 else ():
            for depth in sorted({*MIXED_DEPTHS} & {*amounts.depths}):
                yield Step("mixed", max(count, CELL_DEPTHS * depth), percent / 100, depth, length)


def _steps(amounts: Amounts, size_bytes: int) -> Iterator[Step]:
    # Filled in sequence, as SNIA's PTS; then study B's 20 % random writes at depth 256.
    blocks = size_bytes * amounts.fill_percent // 100 // FILL_BYTES
    if blocks:
        yield Step("fill", blocks, 1.0, FILL_DEPTH, FILL_BYTES, is_sequential=True)
    if amounts.precondition:
        count = amounts.scaled(amounts.precondition)
        yield Step("precondition", count, PRECONDITION_WRITES, PRECONDITION_DEPTH)
    yield Step("random_write", amounts.scaled(amounts.writes), 1.0)
    yield Step("random_read", amounts.scaled(amounts.reads), 0.0)
    # Several lengths for the bandwidth, and in sequence for the setup.
    count = amounts.scaled(amounts.sizes)
    for write_ratio in (1.0, 0.0):
        for length in SIZES_BYTES:
            if length <= size_bytes // 4:
                yield Step("size", count, write_ratio, length_bytes=length)
        yield Step("sequential", count, write_ratio, is_sequential=True)
    count = amounts.scaled(amounts.flushes)
    yield Step("flush", 2 * count, 1.0, is_flushed=True)
    yield Step("empty_flush", 2 * count, 0.0, is_flushed=True)
    yield Step("fua", count, 1.0, is_forced=True)
    for percent in sorted(amounts.write_percents):
        for depth in sorted(amounts.depths):
            count = max(amounts.scaled(amounts.surface), CELL_DEPTHS * depth)
            yield Step("surface", count, percent / 100, depth)


CHUNK = block_plan.CHUNK_RECORDS


def write_plan(path: Path, step: Step, *, size_bytes: int, seed: tuple[int, int]) -> None:
    """Write the step's requests to `path`, all due at once, on the first `size_bytes`."""
    chance = np.random.Generator(np.random.PCG64(seed))
    tables = block_plan.Tables(
        labels=(DEFAULT,),
        needed_bytes=(size_bytes,),
        extents=(block_plan.Extent("device", 0, size_bytes // SECTOR_BYTES, 0, 0),),
        trace_sha256=bytes(32),
        level="queued",
    )
    with block_plan.open_new(path) as out:
        writer = block_plan.PlanWriter(out)
        for first in range(0, step.requests, CHUNK):
            writer.append(_records(step, first, chance=chance, size_bytes=size_bytes))
        writer.finish(tables)


def _records(step: Step, first: int, *, chance: np.random.Generator, size_bytes: int) -> Records:
    """Return the records from number `first` on, at most a chunk."""
    count = min(CHUNK, step.requests - first)
    number = np.arange(first, first + count)
    slots = size_bytes // step.length_bytes
    sectors = step.length_bytes // SECTOR_BYTES
    slot = number % slots if step.is_sequential else chance.integers(0, slots, count)
    is_write = chance.random(count) < step.write_ratio
    is_flush = step.is_flushed & (number % 2 == 1)
    records = np.zeros(count, block_plan.RECORD)
    records["request_id"] = number
    records["sector"] = np.where(is_flush, 0, slot * sectors)
    records["length_sectors"] = np.where(is_flush, 0, sectors)
    records["operation"] = np.where(is_write, block_plan.WRITE, block_plan.READ)
    records["operation"][is_flush] = block_plan.FLUSH
    records["flags"] = block_plan.FUA if step.is_forced else 0
    return records


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
    series: Series = field(default_factory=Series)

    def add(self, values: Integers) -> None:
        """Count service times; means merge by Chan's formula, which loses no digits."""
        if not len(values):
            return
        self.series.add(values)
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
            "robust_mean_ns": self.series.robust_mean,
            "error_ns": self.series.error,
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
    completions: Path, requests: int, *, depth: int, stolen: Stretches | None = None
) -> tuple[dict[str, Latencies], Pace]:
    """Return the service times by operation and of `all`, and how fast `requests` went.

    Without those of `stolen` stretches of time, in ns from the run's start, but in how fast it
    went. InputError for a file that is no file of completions.
    """
    found: dict[str, Latencies] = {ALL: Latencies()}
    pace = Pace(requests, depth)
    for rows in read_records(completions):
        done = rows[rows["status"] == DONE]
        pace.add(done)
        if stolen is not None:
            done = done[are_clear(done, stolen)]
        _add(found, rows[rows["status"] == FAILED], done)
    return found, pace


def are_clear(done: Any, stolen: Stretches) -> npt.NDArray[np.bool_]:
    """Say of each completion whether it lies outside of the stretches."""
    return stolen.clear(*(done[f"{end}_ns"].astype(np.int64) for end in ("submit", "complete")))


def _add(found: dict[str, Latencies], failed: Any, done: Any) -> None:
    service = (done["complete_ns"] - done["submit_ns"]).astype(np.int64)
    found[ALL].add(service)
    found[ALL].failed += len(failed)
    for number in np.unique(np.append(failed["operation"], done["operation"])).tolist():
        one = found.setdefault(OPERATIONS[number], Latencies())
        one.failed += int((failed["operation"] == number).sum())
        one.add(service[done["operation"] == number])
