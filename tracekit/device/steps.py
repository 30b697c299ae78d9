"""What is measured, step by step: study B, section 3, and what a device profile needs beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tracekit.errors import UsageError
from tracekit.plans import Records, block_plan
from tracekit.replay.routes import DEFAULT
from tracekit.units import PAGE_BYTES, SECTOR_BYTES

FILL_BYTES = 1 << 20
FILL_DEPTH = 32
PRECONDITION_DEPTH = 256
PRECONDITION_WRITES = 0.2
SIZES_BYTES = (4096, 16384, 65536, 262144, 1048576)
DEPTH_MAX = 1024
REQUESTS_MAX = 1 << 40
LEAST = 200
"""Requests of a step however small the scale: fewer say nothing about a device."""
CELL_DEPTHS = 20
"""A cell of the surface has so many requests for each in flight, so that its ends do not count."""


@dataclass(frozen=True)
class Step:
    """One run of requests of one length at one depth.

    `is_flushed` puts a flush after each write, `is_forced` makes writes FUA.
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
        """Whether the step changes what is on the device."""
        return self.write_ratio > 0

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

    fill_percent: int = 100
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
        if not 0 <= self.fill_percent <= 100:
            raise UsageError(f"--fill {self.fill_percent}: not a percentage from 0 to 100")
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
            self, scale=self.scale / 100, write_percents=(0, 50, 100), depths=(1, 4, 16, 64)
        )


def steps(amounts: Amounts, size_bytes: int) -> tuple[Step, ...]:
    """Return all steps in order, for a device of which `size_bytes` are used."""
    return tuple(_steps(amounts, size_bytes))


def _steps(amounts: Amounts, size_bytes: int) -> Iterator[Step]:
    # Study B's preconditioning: filled in sequence, then 20 % random writes at depth 256.
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
