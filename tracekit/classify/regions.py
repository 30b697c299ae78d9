"""The regions of a layout with their roles, and the region that holds each request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from numpy.typing import NDArray

from tracekit.arrow import ints, read_batches
from tracekit.errors import UsageError
from tracekit.layout import MOST_SECTORS, read_layout
from tracekit.metadata import Device, Region, TraceInfo
from tracekit.tables import ROLES

# What can decide a request's role.
LAYOUT, OPTION, INFERRED, OUTSIDE, FLUSH, UNDECIDED = range(6)
EVIDENCE_NAMES = ("layout", "option", "inferred", "outside", "empty_flush", "undecided")


@dataclass(frozen=True)
class Assignment:
    """A place on a device and the role of what happens there."""

    role: str
    evidence: int  # LAYOUT ... UNDECIDED
    entry: int | None  # index in the layout, None outside of it


class DeviceMap:
    """The regions of one device; the smallest that holds a sector decides."""

    def __init__(self, entries: list[tuple[int, Region]]) -> None:
        """Take the device's layout entries with their indices in the layout."""
        # Larger regions first, options last, so that what comes later paints over it.
        order = sorted(entries, key=lambda item: (_is_option(item[1]), -item[1].sectors, item[0]))
        edges = {0}
        for _, entry in order:
            edges |= {entry.start_sector, entry.start_sector + entry.sectors}
        self._edges = np.array(sorted(edges), np.int64)
        self._entry = np.full(len(self._edges), -1, np.int64)
        for index, entry in order:
            first, end = np.searchsorted(
                self._edges, [entry.start_sector, entry.start_sector + entry.sectors]
            )
            self._entry[first:end] = index

    def entry_at(self, sectors: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of each sector's layout entry, -1 outside of all."""
        place = np.searchsorted(self._edges, sectors, side="right") - 1
        return np.asarray(np.where(place < 0, -1, self._entry[place]), np.int64)


def _is_option(entry: Region) -> bool:
    return str(entry.evidence).startswith("option:")


def entry_region(index: int, entry: Region) -> Assignment:
    """Return the region of a layout entry; one without a role is undecided."""
    role = entry.role
    evidence = str(entry.evidence)
    if role is None:
        return Assignment("unknown", UNDECIDED, index)
    if _is_option(entry):
        return Assignment(role, OPTION, index)
    if evidence.startswith("inferred:"):
        return Assignment(role, INFERRED, index)
    return Assignment(role, LAYOUT if role in ROLES[:-1] else UNDECIDED, index)


def flush_role(roles: set[str]) -> str:
    """Return the role of a device's empty flushes, which have no address.

    Linux gives them no partition either. Its file systems send them from fsync and, as jbd2 does
    before a commit, to the device of the file system; swap never flushes. So they belong to the
    file system where the device has one, else to the only role that is left.
    """
    candidates = roles - {"swap", "unknown"}
    for role in ("fs", "journal"):
        if role in candidates:
            return role
    return candidates.pop() if len(candidates) == 1 else "unknown"


FOUND_BY = "classify"
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
        return f"option: --role {self.name}={self.role}"

    def fits(self, entry: Region) -> bool:
        """Say whether the option names this layout entry."""
        return self.name in (entry.name, entry.partition)


def original_layout(info: TraceInfo) -> list[Region]:
    """Return the layout as the capture gave it, with all that classify added taken back."""
    entries = []
    for entry in info.layout:
        if entry.found_by == FOUND_BY:
            continue
        restored = replace(entry, confidence=UNSET, given_role=UNSET, given_evidence=UNSET)
        if not isinstance(entry.given_evidence, UnsetType):
            restored.role = None if isinstance(entry.given_role, UnsetType) else entry.given_role
            restored.evidence = entry.given_evidence
        entries.append(restored)
    return entries


def read_layout_file(path: Path, devices: list[Device]) -> list[Region]:
    """Read the partitions of a layout file, under the names that the trace has for the devices.

    Devices are matched by major and minor number where both files know them, else by name; a
    single device without numbers is the trace's single device.
    """
    layout = read_layout(path)
    name_of = _trace_names(layout.devices, devices)
    return [
        replace(entry, device=name_of.get(entry.device, entry.device))
        for entry in layout.partitions
    ]


def _trace_names(theirs: list[Device], ours: list[Device]) -> dict[str, str]:
    if len(theirs) == len(ours) == 1 and theirs[0].major is None:
        return {theirs[0].device: ours[0].device}
    by_number = {
        (device.major, device.minor): device.device for device in ours if device.major is not None
    }
    numbers = {device.device: (device.major, device.minor) for device in theirs}
    return {name: by_number[number] for name, number in numbers.items() if number in by_number}


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


def decided(entry: Region, role: str, *, evidence: str, confidence: str = "certain") -> Region:
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
    devices = list(end_sectors)
    match = RANGE.fullmatch(override.name)
    if override.name in devices:
        entry = found_entry(
            override.name,
            override.name,
            first_sector=0,
            end_sector=max(1, end_sectors[override.name]),
        )
    elif match is None or int(match["sectors"]) == 0:
        known = sorted(
            {*filter(None, (entry.name or entry.partition for entry in entries)), *devices}
        )
        raise UsageError(
            f"--role {override.name}={override.role}: there is no partition or device of that name",
            hint=f"known: {', '.join(known)}; or give DEVICE:START+SECTORS",
        )
    else:
        device = match["device"] or (devices[0] if len(devices) == 1 else "")
        if device not in devices:
            raise UsageError(
                f"--role {override.name}={override.role}: '{device}' is no device of the trace",
                hint=f"give DEVICE:START+SECTORS with a device of {', '.join(devices)}",
            )
        first = int(match["start"])
        end = first + int(match["sectors"])
        if end > MOST_SECTORS:
            raise UsageError(
                f"--role {override.name}={override.role}: no device reaches to sector {end}",
                hint="give 512-byte sectors, not bytes",
            )
        entry = found_entry(device, override.name, first_sector=first, end_sector=end)
    return replace(entry, role=override.role, evidence=override.evidence, confidence="certain")


NO_TIME = -(1 << 63)
EVENT_TIMES = ("queue_ns", "getrq_ns", "insert_ns", "merge_ns", "issue_ns", "complete_ns")

OnRows = Callable[[int], None]


def ignore_rows(_rows: int) -> None:
    """Take no notice of progress."""


def batches(path: Path, columns: Sequence[str], *, on_rows: OnRows = ignore_rows) -> Iterator[Any]:
    """Yield record batches of these columns; `on_rows` gets each batch's rows.

    Raise InputError as tracekit.arrow.read_batches.
    """
    for batch in read_batches(path, columns):
        yield batch
        on_rows(batch.num_rows)


def release_memory() -> None:
    """Give memory that Arrow holds for reuse back to the system, before a stage with its own."""
    pa.default_memory_pool().release_unused()


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
