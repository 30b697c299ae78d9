"""Gives every request the role of its region and rewrites `requests` with it."""

from __future__ import annotations

from collections import Counter
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
    Assignment,
    LayoutMap,
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

    requests: Counter[str] = field(default_factory=Counter)  # by role
    evidence: dict[str, Counter[str]] = field(default_factory=dict)  # by kind and role
    by_entry: dict[int, int] = field(default_factory=dict)  # requests by layout entry
    crossing: int = 0  # requests that end in another region than they begin


class RoleMap:
    """Roles by device and sector: the layout's regions, then two without an address a device."""

    def __init__(self, entries: list[Region], devices: list[str]) -> None:
        self._layout = LayoutMap(entries, devices)
        regions = [entry_region(index, entry) for index, entry in enumerate(entries)]
        self._outside, self.regions = len(regions), list(regions)
        for name in devices:
            pairs = zip(regions, entries, strict=True)
            roles = {region.role for region, entry in pairs if entry.device == name}
            flush = flush_role(roles)
            self.regions += [
                Assignment("other", "outside") if roles else Assignment("unknown", "undecided"),
                Assignment(flush, "undecided" if flush == "unknown" else "empty_flush"),
            ]

    def find(self, batch: Any) -> tuple[NDArray[np.int64], int]:
        """Return the index in `regions` for each row, and how many rows cross an edge."""
        device, sector = self._layout.devices(batch), ints(batch.column("sector"))
        length = ints(batch.column("length_bytes"))
        is_flush = codes(batch.column("operation"), lambda name: int(name == "flush")) == 1
        is_empty = is_flush & (length == 0)
        found = self._layout.entries(device, sector)
        ends = self._layout.entries(device, sector + np.maximum(0, (length - 1) // SECTOR_BYTES))
        crossing = int(np.count_nonzero((ends != found) & ~is_empty))
        outside = self._outside + 2 * device
        return np.where(is_empty, outside + 1, np.where(found < 0, outside, found)), crossing


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
    for place, rows in zip(role_map.regions, tally.tolist(), strict=True):
        if place.entry is not None:
            counts.by_entry[place.entry] = rows
        if rows:
            counts.requests[place.role] += rows
            counts.evidence.setdefault(place.evidence, Counter())[place.role] += rows
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


STAGE = "classify"


def classify_warnings(
    guess: Guess, roles: RoleCounts, *, counts: BlockCounts, devices: list[str]
) -> list[TraceWarning]:
    """Return the warnings of this stage, those that apply."""
    guessed = ", ".join(known.what.removeprefix("role of ") for known in guess.inferences)
    unknown, crossing, impossible = roles.requests["unknown"], roles.crossing, counts.impossible
    absent = ", ".join(sorted({entry.device for entry in guess.entries} - set(devices)))
    devices_absent = f"the layout names devices that the trace has no requests of: {absent}"
    edges = "requests that end in another region than they begin in, where their first sector"
    places = "reads and writes with a place or length that no disk has, which count for no block"
    found = [
        ("guessed_roles", guessed, f"guessed from the requests: roles of {guessed}"),
        ("unknown_roles", unknown, f"requests without a role: {unknown:,}"),
        ("absent_devices", absent, devices_absent),
        ("crossing_requests", crossing, f"{edges} decides: {crossing:,}"),
        ("impossible_requests", impossible, f"{places}: {impossible:,}"),
    ]
    return warnings_of(found, stage=STAGE)


Note = TypeVar("Note", Inference, TraceWarning)


def replace_notes(present: list[Note], new: list[Note]) -> list[Note]:
    """Return what other stages noted, then this stage's notes instead of its earlier ones."""
    return [note for note in present if note.stage != STAGE] + new
