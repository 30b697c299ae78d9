"""The plan of a step, made without a trace: the same seed gives the same bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tracekit.characterize.steps import Step
from tracekit.plan import file
from tracekit.plan.routes import DEFAULT

CHUNK = file.CHUNK_RECORDS


def write_plan(path: Path, step: Step, *, size_bytes: int, seed: tuple[int, int]) -> None:
    """Write the step's requests to `path`, all due at once, on the first `size_bytes`."""
    chance = np.random.Generator(np.random.PCG64(seed))
    tables = file.Tables(
        labels=(DEFAULT,),
        needed_bytes=(size_bytes,),
        extents=(file.Extent("device", 0, size_bytes // file.SECTOR_BYTES, 0, 0),),
        trace_sha256=bytes(32),
        level="queued",
    )
    with file.open_new(path) as out:
        writer = file.PlanWriter(out)
        for first in range(0, step.requests, CHUNK):
            writer.append(_records(step, first, chance=chance, size_bytes=size_bytes))
        writer.finish(tables)


def _records(
    step: Step, first: int, *, chance: np.random.Generator, size_bytes: int
) -> file.Records:
    """Return the records from number `first` on, at most a chunk."""
    count = min(CHUNK, step.requests - first)
    number = np.arange(first, first + count)
    slots = size_bytes // step.length_bytes
    sectors = step.length_bytes // file.SECTOR_BYTES
    slot = number % slots if step.is_sequential else chance.integers(0, slots, count)
    is_write = chance.random(count) < step.write_ratio
    is_flush = step.is_flushed & (number % 2 == 1)
    records = np.zeros(count, file.RECORD)
    records["request_id"] = number
    records["sector"] = np.where(is_flush, 0, slot * sectors)
    records["length_sectors"] = np.where(is_flush, 0, sectors)
    records["operation"] = np.where(is_write, file.WRITE, file.READ)
    records["operation"][is_flush] = file.FLUSH
    records["flags"] = file.FUA if step.is_forced else 0
    return records
