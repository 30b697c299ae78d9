"""Plans written by hand, and the replay program run on them."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit._native import program_path
from tracekit.plans import block_plan
from tracekit.plans.block_plan import DISCARD, FLUSH, FUA, PREFLUSH, READ, WRITE, WRITE_ZEROES
from tracekit.replay.completions import HEADER, RECORD, STATUSES
from tracekit.units import SECTOR_BYTES

PERIOD_BYTES = 1 << 20
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Ran:
    """What one use of the program left."""

    code: int
    summary: dict[str, Any]
    messages: str
    completions: Path

    def rows(self) -> npt.NDArray[np.void]:
        """Return the completion records, read without the product's own reader."""
        data = self.completions.read_bytes()
        header = np.frombuffer(data[: HEADER.itemsize], HEADER)[0]
        rows = np.frombuffer(data[HEADER.itemsize :], RECORD)
        assert header["record_count"] == len(rows)
        return rows

    def statuses(self) -> dict[int, str]:
        """Return the status of each request id."""
        return {int(row["request_id"]): STATUSES[row["status"]] for row in self.rows()}


def record(
    operation: int,
    sector: int = 0,
    sectors: int = 0,
    *,
    at_ns: int = 0,
    flags: int = 0,
    target: int = 0,
    think_ns: int = 0,
    after: int = 0,
) -> tuple[int, ...]:
    """Return a record without its id: the position in the plan is its id."""
    return (at_ns, sector, 0, sectors, operation, flags, target, think_ns, after, 0)


def write_plan(
    path: Path,
    records: list[tuple[int, ...]],
    *,
    labels: tuple[str, ...] = ("default",),
    needed_sectors: int | None = None,
) -> Path:
    """Write a plan in which every target keeps its addresses."""
    rows = np.array(records, block_plan.RECORD)
    rows["request_id"] = np.arange(len(rows))
    end = int((rows["sector"] + rows["length_sectors"]).max())
    needed = (needed_sectors or end) * SECTOR_BYTES
    tables = block_plan.Tables(
        labels=labels,
        needed_bytes=(needed,) * len(labels),
        extents=tuple(
            block_plan.Extent("disk", 0, needed // SECTOR_BYTES, target, 0)
            for target in range(len(labels))
        ),
        trace_sha256=bytes(range(32)),
        level="queued",
    )
    with block_plan.open_new(path) as out:
        writer = block_plan.PlanWriter(out)
        writer.append(rows)
        writer.finish(tables)
    return path


def run(plan: Path, *arguments: str, **options: Any) -> Ran:
    """Run the program on a plan, with completions and summary beside it."""
    completions, summary = plan.with_suffix(".done"), plan.with_suffix(".json")
    summary.unlink(missing_ok=True)
    completions.unlink(missing_ok=True)
    command: list[str | Path] = [
        program_path(),
        plan,
        "--completions",
        completions,
        "--summary",
        summary,
    ]
    ended = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, timeout=60, **options
    )
    told = json.loads(summary.read_text()) if summary.exists() else {}
    return Ran(ended.returncode, told, ended.stderr, completions)


def pattern(offset_bytes: int, length_bytes: int) -> Bytes:
    """Return what the program must have written at a place, by the formula of INTERFACE.md."""
    with np.errstate(over="ignore"):
        n = np.arange(PERIOD_BYTES // 8, dtype=np.uint64) + np.uint64(1)
        value = n * np.uint64(0x9E3779B97F4A7C15)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        value = value ^ (value >> np.uint64(31))
    period = value.astype("<u8").view(np.uint8)
    places = (offset_bytes + np.arange(length_bytes)) % PERIOD_BYTES
    return period[places]


def expected_content(records: list[tuple[int, ...]], size_bytes: int) -> Bytes:
    """Return a target's content after the records ran one by one on a file of zeroes."""
    content = np.zeros(size_bytes, np.uint8)
    for _, sector, _, sectors, operation, *_ in records:
        start, length = sector * 512, sectors * 512
        if operation == WRITE:
            content[start : start + length] = pattern(start, length)
        elif operation in (DISCARD, WRITE_ZEROES):
            content[start : start + length] = 0
    return content


def content(path: Path) -> Bytes:
    """Return a file's bytes."""
    return np.frombuffer(path.read_bytes(), np.uint8)


__all__ = ["DISCARD", "FLUSH", "FUA", "PREFLUSH", "READ", "WRITE", "WRITE_ZEROES"]
