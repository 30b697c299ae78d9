"""The requests of a trace as arrays, so many of them that all that follows fits into 1 GiB."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tracekit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
SECTOR_BYTES = 512
FLAGS = {"is_fua": 1, "is_preflush": 2, "is_sync": 4, "is_meta": 8, "is_readahead": 16}
NAMES = ("fua", "preflush", "sync", "meta", "readahead")
OPERATIONS = ("read", "write", "flush")
LIMIT = 3_000_000
COLUMNS = ("queue_ns", "sector", "length_bytes", "operation", "device", "role", "process")
MOST_BYTES = 64 << 20

ROWS = np.dtype(
    [
        ("time_ns", "<i8"),
        ("sector", "<i8"),
        ("sectors", "<u4"),
        ("operation", "u1"),
        ("flags", "u1"),
        ("region", "<u2"),
        ("owner", "<u2"),
    ]
)
Rows = npt.NDArray[np.void]


@dataclass
class Requests:
    """Rows in queue order; a region is a device's part of one role, an owner a role's process."""

    rows: Rows
    regions: list[tuple[str, str]]
    owners: list[tuple[str, str | None]]
    left_out: Counter[str] = field(default_factory=Counter)


def read_requests(path: Path, limit: int = LIMIT) -> Requests:
    """Return reads, writes and flushes that have a queue time; all else is counted as left out.

    Raise InputError when none is left.
    """
    from tracekit.columns import open_table

    with open_table(path) as table:
        limit = min(limit, table.metadata.num_rows)
    # Memory that is not filled is not taken.
    found = Requests(np.empty(limit, ROWS), [], [])
    taken = 0
    for batch in _batches(path):
        rows = _rows(batch, found)
        left = limit - taken
        if len(rows) > left:
            found.left_out["beyond the limit"] += len(rows) - left
        found.rows[taken : taken + len(rows)] = rows[:left]
        taken += min(len(rows), left)
    if not taken:
        raise InputError(f"{path}: there is no read, write or flush to make a profile of")
    found.rows = found.rows[:taken]
    times = found.rows["time_ns"]
    if (times[1:] < times[:-1]).any():
        found.rows = found.rows[np.argsort(times, kind="stable")]
    found.rows["time_ns"] -= found.rows["time_ns"][0]
    return found


def _batches(path: Path) -> Iterator[Any]:
    from tracekit.columns import read_batches

    yield from read_batches(path, [*COLUMNS, *FLAGS])


def _rows(batch: Any, found: Requests) -> Rows:
    from tracekit.columns import codes, flags, ints

    rows = np.zeros(batch.num_rows, ROWS)
    known = {name: batch.column(name) for name in batch.schema.names}
    no_time = -(1 << 62)
    rows["time_ns"] = ints(known["queue_ns"], if_null=no_time)
    length = ints(known["length_bytes"])
    operation = codes(known["operation"], lambda name: _code(name, OPERATIONS))
    # A write of nothing that flushes is a flush, as in a plan.
    operation = np.where((operation == 1) & (length == 0), 2, operation)
    sector = ints(known["sector"])
    is_flush = operation == 2
    reasons = {
        "no queue time": rows["time_ns"] == no_time,
        "operation": operation < 0,
        "empty": (operation >= 0) & ~is_flush & (length <= 0),
        "impossible": ~is_flush & ((sector < 0) | (sector > 1 << 52)),
        "too long": ~is_flush & (length > MOST_BYTES),
    }
    is_kept = np.ones(len(rows), bool)
    for reason, mask in reasons.items():
        count = int((mask & is_kept).sum())
        if count:
            found.left_out[reason] += count
        is_kept &= ~mask
    rows["sector"] = np.where(is_flush, 0, sector)
    rows["sectors"] = np.where(is_flush | ~is_kept, 0, -(-length // SECTOR_BYTES))
    rows["operation"] = np.where(operation < 0, 0, operation)
    for name, bit in FLAGS.items():
        rows["flags"] |= flags(known[name]).astype(np.uint8) * np.uint8(bit)
    rows["region"], rows["owner"] = _groups(known, found)
    return rows[is_kept]


def _code(name: str | None, names: tuple[str, ...]) -> int:
    return names.index(name) if name in names else -1


def _groups(known: dict[str, Any], found: Requests) -> tuple[Integers, Integers]:
    """Return the numbers of each row's region and owner, in lists that grow."""
    from tracekit.columns import codes

    texts: list[list[str | None]] = []
    numbers: list[Integers] = []
    for name in ("device", "role", "process"):
        seen: list[str | None] = []
        numbers.append(codes(known[name], lambda text, seen=seen: _number(text, seen)))  # type: ignore[misc]
        texts.append(seen)
    device, role, process = numbers
    devices, roles, processes = texts
    regions = _pairs(device, role, (devices, roles), found.regions)
    owners = _pairs(role, process, (roles, processes), found.owners)
    return regions, owners


def _number(text: str | None, seen: list[str | None]) -> int:
    if text not in seen:
        seen.append(text)
    return seen.index(text)


def _pairs(first: Integers, second: Integers, names: Any, known: list[Any]) -> Integers:
    width = len(names[1])
    both = first * width + second
    found = np.unique(both)
    table = np.zeros(int(found[-1]) + 1 if len(found) else 1, np.int64)
    for pair in found.tolist():
        name = (names[0][pair // width], names[1][pair % width])
        if name not in known:
            known.append(name)
        table[pair] = known.index(name)
    return np.asarray(table[both], np.int64)
