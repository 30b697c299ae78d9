"""Gives every request the role of its region and rewrites `requests` with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit.arrow import BATCH_ROWS, codes, ints, open_table, text_column
from tracekit.classify.hotness import BlockCounts
from tracekit.classify.infer import Guess
from tracekit.classify.regions import (
    EVIDENCE_NAMES,
    FLUSH,
    OUTSIDE,
    UNDECIDED,
    Assignment,
    DeviceMap,
    OnRows,
    entry_region,
    flush_role,
    ignore_rows,
)
from tracekit.metadata import Inference, Region, TraceWarning, warnings_of
from tracekit.store import write_batches
from tracekit.tables import ROLES, TEXT
from tracekit.units import SECTOR_BYTES

COLUMNS = ("device", "sector", "length_bytes", "operation", "role")


@dataclass
class RoleCounts:
    """What came of assigning roles."""

    requests: dict[str, int] = field(default_factory=dict)  # by role
    evidence: dict[str, dict[str, int]] = field(default_factory=dict)  # by kind and role
    by_entry: dict[int, int] = field(default_factory=dict)  # requests by layout entry
    crossing: int = 0  # requests that end in another region than they begin


class RoleMap:
    """Roles by device and sector: the layout's regions, then two without an address a device."""

    def __init__(self, entries: list[Region], devices: list[str]) -> None:
        self._devices = {name: code for code, name in enumerate(devices)}
        self.regions = [entry_region(index, entry) for index, entry in enumerate(entries)]
        self._maps = []
        self._outside, self._flush = [], []
        for name in devices:
            mine = [(i, entry) for i, entry in enumerate(entries) if entry.device == name]
            self._maps.append(DeviceMap(mine))
            roles = {self.regions[index].role for index, _ in mine}
            flush = flush_role(roles)
            self._outside.append(self._append(_outside_region(bool(mine))))
            self._flush.append(
                self._append(Assignment(flush, UNDECIDED if flush == "unknown" else FLUSH, None))
            )

    def _append(self, region: Assignment) -> int:
        self.regions.append(region)
        return len(self.regions) - 1

    def find(self, batch: Any) -> tuple[NDArray[np.int64], int]:
        """Return the index in `regions` for each row, and how many rows cross an edge."""
        device = codes(batch.column("device"), lambda name: self._devices.get(name or "", 0))
        sector = ints(batch.column("sector"))
        length = ints(batch.column("length_bytes"))
        is_flush = codes(batch.column("operation"), lambda name: int(name == "flush")) == 1
        is_empty = is_flush & (length == 0)
        last = sector + np.maximum(0, (length - 1) // SECTOR_BYTES)
        region = np.empty(len(sector), np.int64)
        crossing = 0
        for code in np.unique(device):
            rows = np.flatnonzero(device == code)
            found = self._maps[code].entry_at(sector[rows])
            ends = self._maps[code].entry_at(last[rows])
            crossing += int(np.count_nonzero((ends != found) & ~is_empty[rows]))
            found[found < 0] = self._outside[code]
            found[is_empty[rows]] = self._flush[code]
            region[rows] = found
        return region, crossing


def _outside_region(has_layout: bool) -> Assignment:
    return (
        Assignment("other", OUTSIDE, None) if has_layout else Assignment("unknown", UNDECIDED, None)
    )


def assign_roles(
    requests: Path, entries: list[Region], *, devices: list[str], on_rows: OnRows = ignore_rows
) -> RoleCounts:
    """Rewrite the column `role` of `requests`, in place and in one step, and count the roles."""
    role_map = RoleMap(entries, devices)
    file = open_table(requests, COLUMNS[:-1])
    role_codes = np.array([ROLES.index(region.role) for region in role_map.regions], np.int32)
    tally = np.zeros(len(role_map.regions), np.int64)
    counts = RoleCounts()

    def rewritten() -> Iterator[Any]:
        for batch in file.iter_batches(BATCH_ROWS):
            region, crossing = role_map.find(batch)
            tally[:] += np.bincount(region, minlength=len(tally))
            counts.crossing += crossing
            yield _with_role(batch, role_codes[region])

    write_batches(requests, rewritten(), schema=_schema(file), on_rows=on_rows)
    _sum_up(counts, role_map.regions, tally)
    return counts


def _schema(file: Any) -> Any:
    schema = file.schema_arrow
    if "role" in schema.names:
        return schema
    return schema.append(pa.field("role", TEXT, nullable=False))


def _with_role(batch: Any, role_codes: NDArray[np.int32]) -> Any:
    roles = text_column(role_codes, ROLES)
    if "role" not in batch.schema.names:
        return batch.append_column(pa.field("role", TEXT, nullable=False), roles)
    place = batch.schema.names.index("role")
    return batch.set_column(place, batch.schema.field(place), roles)


def _sum_up(counts: RoleCounts, regions: list[Assignment], tally: NDArray[np.int64]) -> None:
    for region, rows in zip(regions, tally.tolist(), strict=True):
        if region.entry is not None:
            counts.by_entry[region.entry] = rows
        if rows:
            counts.requests[region.role] = counts.requests.get(region.role, 0) + rows
            kind = counts.evidence.setdefault(EVIDENCE_NAMES[region.evidence], {})
            kind[region.role] = kind.get(region.role, 0) + rows


STAGE = "classify"


def classify_warnings(
    guess: Guess, roles: RoleCounts, *, counts: BlockCounts, devices: list[str]
) -> list[TraceWarning]:
    """Return the warnings of this stage, those that apply."""
    guessed = [known.what.removeprefix("role of ") for known in guess.inferences]
    unknown = roles.requests.get("unknown", 0)
    absent = sorted({entry.device for entry in guess.entries} - set(devices))
    found = [
        ("guessed_roles", guessed, f"guessed from the requests: roles of {', '.join(guessed)}"),
        ("unknown_roles", unknown, f"requests without a role: {unknown:,}"),
        (
            "absent_devices",
            absent,
            f"the layout names devices that the trace has no requests of: {', '.join(absent)}",
        ),
        (
            "crossing_requests",
            roles.crossing,
            "requests that end in another region than they begin in, where their first sector"
            f" decides: {roles.crossing:,}",
        ),
        (
            "impossible_requests",
            counts.impossible,
            "reads and writes with a place or length that no disk has, which count for no block:"
            f" {counts.impossible:,}",
        ),
    ]
    return warnings_of(found, stage=STAGE)


Note = TypeVar("Note", Inference, TraceWarning)


def replace_notes(present: list[Note], new: list[Note]) -> list[Note]:
    """Return what other stages noted, then this stage's notes instead of its earlier ones."""
    return [note for note in present if note.stage != STAGE] + new
