"""The regions of a layout with their roles, and the role that each request has of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from numpy.typing import NDArray

from tracekit.arrow import ahead, batches_of, codes, ints, open_table, read_batches, text_column
from tracekit.errors import UsageError
from tracekit.layout import MOST_SECTORS, Layout, read_layout
from tracekit.metadata import Device, Region, TraceInfo
from tracekit.store import write_batches
from tracekit.tables import ROLES, TEXT
from tracekit.units import SECTOR_BYTES

FOUND_BY = "classify"
BY_OPTION = "option: --role "
"""How the evidence of a region begins whose role an option gave."""
CERTAIN = "certain"
"""The confidence of a role that an option gave; a layout's own roles have none."""
Assignment = tuple[str, str]
"""A role, and what decided it: layout, option, inferred, outside, empty_flush or undecided."""


class LayoutMap:
    """The layout entry of each sector of each device; of several the smallest."""

    def __init__(self, entries: list[Region], devices: list[str]) -> None:
        """Take the layout, and the devices in the order of their codes."""
        self._codes = {name: code for code, name in enumerate(devices)}
        pairs = list(enumerate(entries))
        self._maps = [_map([pair for pair in pairs if pair[1].device == name]) for name in devices]

    def devices(self, batch: Any) -> NDArray[np.int64]:
        """Return the code of each row's device."""
        return codes(batch.column("device"), lambda name: self._codes.get(name or "", 0))

    def entries(self, device: NDArray[np.int64], sector: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of the layout entry of each device and sector, -1 outside of all."""
        found = np.full(len(sector), -1, np.int64)
        present = np.flatnonzero(np.bincount(device))
        for code in present:
            rows = np.flatnonzero(device == code) if len(present) > 1 else slice(None)
            edges, entry = self._maps[code]
            place = np.searchsorted(edges, sector[rows], side="right") - 1
            found[rows] = np.where(place < 0, -1, entry[place])
        return found


def _map(entries: list[tuple[int, Region]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the pieces of a device begin, and the entry of each; -1 of none."""
    # Larger regions first, options last, so that what comes later paints over it.
    order = sorted(entries, key=lambda item: (_is_option(item[1]), -item[1].sectors, item[0]))
    ends = [(entry.start_sector, entry.start_sector + entry.sectors) for _, entry in order]
    edges = np.unique(np.array([0, *chain.from_iterable(ends)], np.int64))
    found = np.full(len(edges), -1, np.int64)
    for (index, _), (first, end) in zip(order, ends, strict=True):
        found[slice(*np.searchsorted(edges, [first, end]))] = index
    return edges, found


def _is_option(entry: Region) -> bool:
    return entry.confidence == CERTAIN


def entry_role(entry: Region) -> Assignment:
    """Return what a layout entry assigns; one without a role is undecided."""
    if entry.role is None:
        return "unknown", "undecided"
    if _is_option(entry):
        return entry.role, "option"
    if isinstance(entry.confidence, str):
        return entry.role, "inferred"
    return entry.role, "layout" if entry.role in ROLES[:-1] else "undecided"


def flush_role(roles: set[str]) -> str:
    """Return the role of a device's empty flushes, which have no address.

    Linux gives them no partition either. Its file systems send them from fsync and, as jbd2 does
    before a commit, to the device of the file system; swap never flushes. So they belong to the
    file system where the device has one, else to the only role that is left.
    """
    candidates = roles - {"swap", "unknown"}
    first = next((role for role in ("fs", "journal") if role in candidates), None)
    return first or (candidates.pop() if len(candidates) == 1 else "unknown")


RANGE = re.compile(r"(?:(?P<device>.+):)?(?P<start>\d+)\+(?P<sectors>\d+)")


@dataclass(frozen=True)
class Override:
    """One `--role NAME=ROLE`: a partition, a device, or START+SECTORS on a device."""

    name: str
    role: str

    @classmethod
    def parse(cls, text: str) -> Override:
        """Read `NAME=ROLE`; raise UsageError when it is not of this form."""
        name, equals, role = text.rpartition("=")
        if not equals or not name or role not in ROLES:
            raise UsageError(
                f"--role {text} is not NAME=ROLE with a role of {', '.join(ROLES)}",
                hint="for example: --role loop0p2=journal or --role loop0:2099200+262144=journal",
            )
        return cls(name, role)

    @property
    def evidence(self) -> str:
        """What a region says whose role this option gave."""
        return f"{BY_OPTION}{self.name}={self.role}"

    def fits(self, entry: Region) -> bool:
        """Say whether the option names this layout entry."""
        return self.name in (entry.name, entry.partition)


def original_layout(info: TraceInfo) -> list[Region]:
    """Return the layout as the capture gave it, with all that classify added taken back."""
    entries = []
    own = info.layout if isinstance(info.own_layout, UnsetType) else info.own_layout
    for entry in info.layout if own is None else own:
        if entry.found_by == FOUND_BY:
            continue
        restored = replace(entry, confidence=UNSET, given_role=UNSET, given_evidence=UNSET)
        if not isinstance(entry.given_evidence, UnsetType):
            restored.role = None if isinstance(entry.given_role, UnsetType) else entry.given_role
            restored.evidence = entry.given_evidence
        entries.append(restored)
    return entries


def read_layout_file(path: Path, devices: list[Device]) -> Layout:
    """Read a layout file, its partitions under the names that the trace has for the devices.

    Devices are matched by major and minor number where both files know them, else by name; a
    single device without numbers is the trace's single device.
    """
    layout = read_layout(path)
    theirs = layout.devices
    if len(theirs) == len(devices) == 1 and theirs[0].major is None:
        names = {theirs[0].device: devices[0].device}
    else:
        ours: dict[tuple[int | None, int | None], str]
        ours = {(one.major, one.minor): one.device for one in devices if one.major is not None}
        pairs = ((one.device, ours.get((one.major, one.minor))) for one in theirs)
        names = {name: known for name, known in pairs if known is not None}
    renamed = (replace(one, device=names.get(one.device, one.device)) for one in layout.partitions)
    return replace(layout, partitions=list(renamed))


def apply_overrides(
    entries: list[Region], overrides: Sequence[Override], *, end_sectors: dict[str, int]
) -> list[Region]:
    """Return the entries with the roles of `--role`; raise UsageError for an unknown name.

    `end_sectors` says how far each device of the trace reaches.
    """
    result = list(entries)
    for override in overrides:
        named = [place for place, entry in enumerate(result) if override.fits(entry)]
        for place in named:
            result[place] = decided(result[place], override.role, evidence=override.evidence)
        if not named:
            result.append(_new_entry(override, entries, end_sectors))
    return result


def decided(entry: Region, role: str, *, evidence: str, confidence: str = CERTAIN) -> Region:
    """Return the entry with a role that the capture did not give, keeping what it gave."""
    found = replace(entry, role=role, evidence=evidence, confidence=confidence)
    if isinstance(entry.given_evidence, UnsetType):
        found.given_role, found.given_evidence = entry.role, entry.evidence
    return found


def found_entry(device: str, name: str, *, first_sector: int, end_sector: int) -> Region:
    """Return an entry for a region that no layout names."""
    return Region(
        device=device,
        name=name,
        start_sector=first_sector,
        sectors=end_sector - first_sector,
        found_by=FOUND_BY,
    )


def _new_entry(override: Override, entries: list[Region], end_sectors: dict[str, int]) -> Region:
    """Return an entry for a device or a range of sectors that no layout names."""
    name, devices, first = override.name, list(end_sectors), 0
    option = f"--role {name}={override.role}"
    match = RANGE.fullmatch(name)
    if name in devices:
        device, end = name, max(1, end_sectors[name])
    elif match is None or int(match["sectors"]) == 0:
        known = {*filter(None, (entry.name or entry.partition for entry in entries)), *devices}
        message = f"{option}: there is no partition or device of that name"
        hint = f"known: {', '.join(sorted(known))}; or give DEVICE:START+SECTORS"
        raise UsageError(message, hint=hint)
    else:
        device = match["device"] or (devices[0] if len(devices) == 1 else "")
        first, end = int(match["start"]), int(match["start"]) + int(match["sectors"])
    if device not in devices:
        hint = f"give DEVICE:START+SECTORS with a device of {', '.join(devices)}"
        raise UsageError(f"{option}: '{device}' is no device of the trace", hint=hint)
    if end > MOST_SECTORS:
        hint = "give 512-byte sectors, not bytes"
        raise UsageError(f"{option}: no device reaches to sector {end}", hint=hint)
    entry = found_entry(device, name, first_sector=first, end_sector=end)
    return replace(entry, role=override.role, evidence=override.evidence, confidence=CERTAIN)


NO_TIME = -(1 << 63)
EVENT_TIMES = ("queue_ns", "getrq_ns", "insert_ns", "merge_ns", "issue_ns", "complete_ns")

OnRows = Callable[[int], None]


def ignore_rows(_rows: int) -> None:
    """Take no notice of progress."""


def batches(path: Path, columns: Sequence[str], *, on_rows: OnRows = ignore_rows) -> Iterator[Any]:
    """Yield record batches of these columns; `on_rows` gets each batch's rows.

    Raise InputError as tracekit.arrow.read_batches.
    """
    for batch in ahead(read_batches(path, columns)):
        yield batch
        on_rows(batch.num_rows)


def time_columns(file: Any) -> tuple[str, ...]:
    """Return the columns that give every row a time: `queue_ns` alone where it has no nulls."""
    index = file.schema_arrow.names.index("queue_ns")
    for group in range(file.metadata.num_row_groups):
        column = file.metadata.row_group(group).column(index)
        if not column.is_stats_set or column.statistics.null_count != 0:
            return tuple(name for name in EVENT_TIMES if name in file.schema_arrow.names)
    return ("queue_ns",)


def first_event_ns(batch: Any) -> NDArray[np.int64]:
    """Return each row's first known time, NO_TIME where it has none."""
    known = [batch.column(name) for name in EVENT_TIMES if name in batch.schema.names]
    times = ints(known[0], if_null=NO_TIME)
    for column in known[1:]:
        times = np.where(times == NO_TIME, ints(column, if_null=NO_TIME), times)
    return times


COLUMNS = ("device", "sector", "length_bytes", "operation")


@dataclass
class RoleCounts:
    """What came of assigning roles."""

    requests: Counter[str] = field(default_factory=Counter)  # by role
    evidence: dict[str, Counter[str]] = field(default_factory=dict)  # by kind and role
    crossing: int = 0  # requests that end in another region than they begin


class RoleMap:
    """Roles by device and sector: the layout's entries, then two without an address a device."""

    def __init__(self, entries: list[Region], devices: list[str]) -> None:
        self._layout = LayoutMap(entries, devices)
        self._outside = len(entries)
        self.assignments = [entry_role(entry) for entry in entries]
        for name in devices:
            roles = {entry_role(entry)[0] for entry in entries if entry.device == name}
            flush = flush_role(roles)
            self.assignments += [
                ("other", "outside") if roles else ("unknown", "undecided"),
                (flush, "undecided" if flush == "unknown" else "empty_flush"),
            ]

    def find(self, batch: Any) -> tuple[NDArray[np.int64], int]:
        """Return the index in `assignments` for each row, and how many rows cross an edge."""
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
    file = open_table(requests, COLUMNS)
    assignments = role_map.assignments
    role_codes = np.array([ROLES.index(role) for role, _ in assignments], np.int32)
    tally = np.zeros(len(assignments), np.int64)
    counts = RoleCounts()

    def rewritten() -> Iterator[Any]:
        for batch in ahead(batches_of(file)):
            region, crossing = role_map.find(batch)
            tally[:] += np.bincount(region, minlength=len(tally))
            counts.crossing += crossing
            yield _with_role(batch, role_codes[region])

    write_batches(requests, rewritten(), schema=_schema(file), on_rows=on_rows)
    for (role, evidence), rows in zip(assignments, tally.tolist(), strict=True):
        if rows:
            counts.requests[role] += rows
            counts.evidence.setdefault(evidence, Counter())[role] += rows
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
