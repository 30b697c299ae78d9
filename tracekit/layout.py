"""What lies where on the traced disks: layout.json of a capture, or a dump of sfdisk."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from tracekit.errors import InputError
from tracekit.metadata import Count, Device, Record, Region, parse_object, validate
from tracekit.safe_open import read_given
from tracekit.tables import ROLES
from tracekit.units import SECTOR_BYTES

LAYOUT_VERSION = 1
SWAP_TYPES = {"0657fd6d-a4ab-43c4-84e5-0933c84b4f4f", "82"}
FOUND_BY_REMAPS = "remaps"
"""What says of an entry that requests of the capture to a device above went to it."""
HINT = "see layout.json in docs/recording.md"
MAJORS, MINORS = 1 << 12, 1 << 20  # of a dev_t in the kernel
PID_DIGITS = 9
ID_DIGITS = 20
MOST_SECTORS = (1 << 63) // SECTOR_BYTES
SFDISK_LINE = re.compile(r"(?P<path>/\S+)\s*:\s*start=\s*(?P<start>\d+),\s*size=\s*(?P<size>\d+)")
SFDISK_TYPE = re.compile(r"\b(?:type|Id)=\s*([0-9A-Fa-f-]+)")


class Reading(Record, kw_only=True):
    """A reading of a disk's counters, and the times just before and after it."""

    before_ns: Count
    """CLOCK_MONOTONIC."""
    after_ns: Count
    in_flight: Count = 0
    completed: dict[str, Count]
    """Completions by kind."""


class DiskCounters(Record, omit_defaults=True):
    """The kernel's counters of a disk when recording began and ended, or why there are none."""

    device: str
    begin: Reading | None = None
    end: Reading | None = None
    why_not: str | None = None


class Losses(Record):
    """Records that were overwritten before they were read, and that the kernel had no room for."""

    overrun: Count = 0
    dropped: Count = 0
    whole_ns: Count | UnsetType = UNSET
    """How long, from the first record on, each CPU's records found space; unset: always."""


class NameSummary(Record):
    """What is known of the files whose blocks were captured."""

    files: Count
    pieces: Count
    """Of devices, with a name or known to have none."""
    is_cut: bool = False
    """There are more files than were looked at."""


class CaptureSummary(Record):
    """`capture` of layout.json: what recorded the capture, and what its records hold."""

    source: str
    command: list[str] = msgspec.field(default_factory=list)
    overhead: dict[str, Any] | UnsetType = UNSET
    records: Count = 0
    own_pid: int | UnsetType = UNSET
    piece: Count | UnsetType = UNSET
    """Its number among those of a recording, one behind the other, from 1."""
    own_requests: Count = 0
    foreign_bytes: Count = 0
    dropped_by_disk: dict[str, int] | UnsetType = UNSET
    missed_at_most: Count | UnsetType = UNSET
    names: NameSummary | UnsetType = UNSET
    lab: dict[str, Any] | UnsetType = UNSET


class Origin(Record):
    """Of `capture`, what says whether captures are pieces of one recording."""

    own_pid: int | UnsetType = UNSET
    piece: Count | UnsetType = UNSET


class Layout(Record):
    """The content of a layout.json, or what an sfdisk dump says."""

    devices: list[Device] = msgspec.field(default_factory=list)
    partitions: list[Region] = msgspec.field(default_factory=list)
    processes: dict[str, str] = msgspec.field(default_factory=dict)
    """Names by process number."""
    cgroups: dict[str, str] = msgspec.field(default_factory=dict)
    """Paths of control groups below their root, by the kernel's id."""
    loss: Losses = msgspec.field(default_factory=Losses)
    kernel: str | None = None
    """Release of the kernel that was captured."""
    counters: list[DiskCounters] = msgspec.field(default_factory=list)
    capture: Origin = msgspec.field(default_factory=Origin)
    doubts: list[str] = msgspec.field(default_factory=list)
    """What whoever made it could not find out, and what to do about it; `unread` is added to it."""
    unread: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """Of each disk, what could not be read."""
    open_places: dict[str, list[tuple[Count, Count]]] = msgspec.field(default_factory=dict)
    """First sector and sectors, by disk, that had blocks of several roles or of a role not known.

    Only of where remaps are followed to: what other pieces of a recording say is not of these.
    """

    @property
    def dropped(self) -> int:
        """Records that were lost in the kernel."""
        return self.loss.overrun + self.loss.dropped


def read_layout(path: Path) -> Layout:
    """Read a layout.json or an sfdisk dump; raise InputError that says what is wrong with it."""
    try:
        content = read_given(path)
        text = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        hint = "give a layout.json, or what `sfdisk --dump DISK` prints"
        raise InputError(f"{path}: cannot be read as a layout: {error}", hint=hint) from None
    is_json = text.lstrip().startswith("{")
    layout = _from_json(path, content) if is_json else _from_sfdisk(path, text)
    check_regions(layout.partitions, f"{path}, partitions")
    return layout


def check_regions(entries: list[Region], place: str) -> None:
    """Raise InputError that names the first entry which is no region of a device."""
    for number, entry in enumerate(entries):
        where = f"{place}, entry {number}"
        if entry.sectors < 1:
            raise InputError(
                f"{where}: sectors is {entry.sectors}, not a whole number of at least 1",
                hint="give it in 512-byte sectors from the start of the device",
            )
        if entry.start_sector + entry.sectors > MOST_SECTORS:
            raise InputError(
                f"{where}: no device reaches to sector {entry.start_sector + entry.sectors}",
                hint="give 512-byte sectors, not bytes",
            )
        if entry.role not in (None, *ROLES):
            raise InputError(
                f"{where}: role is {entry.role!r}", hint=f"roles are {', '.join(ROLES)}"
            )


def _bad(path: Path, what: str) -> InputError:
    return InputError(f"{path}: {what}", hint=HINT)


def _from_json(path: Path, text: bytes) -> Layout:
    content = parse_object(text, path, hint=HINT)
    version = content.get("layout_version")
    if version != LAYOUT_VERSION:
        if version is None:
            raise InputError(
                f"{path}: is no layout.json",
                hint=f"make one of what lsblk, sfdisk, findmnt and others print: tracekit layout"
                f" --text {path} -o layout.json",
            )
        raise _bad(path, f"layout_version is {version!r}, this tracekit reads {LAYOUT_VERSION}")
    found = validate(content, Layout, file=path, hint=HINT)
    for key, limit in (("major", MAJORS), ("minor", MINORS)):
        for device in found.devices:
            if (getattr(device, key) or 0) >= limit:
                number = getattr(device, key)
                raise _bad(path, f"{key} is {number}, the kernel has numbers below {limit}")
    if not all(number.isdecimal() and len(number) <= PID_DIGITS for number in found.processes):
        raise _bad(path, "processes are not names by process number")
    ids = found.cgroups
    if not all(one.isdecimal() and len(one) <= ID_DIGITS and int(one) < 1 << 64 for one in ids):
        raise _bad(path, "cgroups are not paths by the kernel's id")
    for disk, places in found.open_places.items():
        if any(first + sectors > MOST_SECTORS for first, sectors in places):
            raise _bad(path, f"open_places has sectors that no device has, of {disk}")
    found.counters = [_counters(path, entry) for entry in found.counters]
    found.doubts += [line for lines in found.unread.values() for line in lines]
    return found


def _counters(path: Path, entry: DiskCounters) -> DiskCounters:
    """Return both readings of a disk's counters, or why there are none."""
    if entry.why_not is not None:
        return entry
    begin, end = entry.begin, entry.end
    if begin is None or end is None:
        raise _bad(path, f"counters of {entry.device} are not two readings")
    if begin.completed.keys() != end.completed.keys() or begin.after_ns > end.before_ns:
        raise _bad(path, f"counters of {entry.device}: the readings do not belong together")
    for kind, count in begin.completed.items():
        if end.completed[kind] < count:
            why_not = f"its count of {kind} went back"
            return DiskCounters(device=entry.device, why_not=why_not)
    return entry


def _from_sfdisk(path: Path, text: str) -> Layout:
    disk = re.search(r"^device:\s*(\S+)", text, re.MULTILINE)
    if not disk:
        raise _bad(path, "neither a layout.json nor an sfdisk dump: it has no line `device: DISK`")
    name = Path(disk[1]).name
    scale = re.search(r"^sector-size:\s*(\d+)", text, re.MULTILINE)
    factor = int(scale[1]) // 512 if scale else 1
    device = Device(device=name, logical_sector_bytes=int(scale[1]) if scale else None)
    lines = (SFDISK_LINE.match(line) for line in text.splitlines())
    partitions = [_sfdisk_partition(name, match, factor) for match in lines if match]
    return Layout(devices=[device], partitions=partitions)


def _sfdisk_partition(device: str, match: re.Match[str], factor: int) -> Region:
    kind = SFDISK_TYPE.search(match.string)
    is_swap = kind is not None and kind[1].lower() in SWAP_TYPES
    return Region(
        device=device,
        name=Path(match["path"]).name,
        start_sector=int(match["start"]) * factor,
        sectors=int(match["size"]) * factor,
        role="swap" if is_swap else "unknown",
        evidence=f"partition type {kind[1]}" if kind else "partition table",
    )
