"""Decides to which target a request goes, and at which address.

A role with a target of its own starts at address 0 of it: its partitions lie there one after the
other, each from its own start. A device, or some of its sectors, with a target of its own starts at
address 0, too; what begins there goes to it, whatever its role. Everything else keeps its address
on the target `default`; where a trace has several devices they lie there one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tracekit.arrow import Integers
from tracekit.errors import InputError, UsageError
from tracekit.metadata import Region, TraceInfo
from tracekit.plans.block_plan import Extent, Tables
from tracekit.tables import ROLES
from tracekit.units import SECTOR_BYTES

LABEL_MOST = 31
_PART = re.compile(r"(?P<device>[^@]+)(?:@(?P<first>\d{1,15})\+(?P<sectors>\d{1,15}))?")


@dataclass(frozen=True)
class Part:
    """What `label` names: a device, from a sector to the one before `end_sector`, None: all."""

    label: str
    device: str
    first_sector: int = 0
    end_sector: int | None = None


def known_devices(info: TraceInfo) -> list[str]:
    """Return the names of the devices in a trace's `trace.json`."""
    names = [device.device for device in info.devices]
    return list(dict.fromkeys([*names, *(region.device for region in info.layout)]))


def parts_of(labels: Sequence[str], devices: Sequence[str]) -> tuple[Part, ...]:
    """Return what the labels name that are no roles: DEVICE or DEVICE@SECTOR+SECTORS.

    Raise UsageError for one that names nothing on the trace's devices, and for two that overlap.
    """
    parts = tuple(_part(label, devices) for label in labels if label not in ROLES)
    for number, one in enumerate(parts):
        for other in parts[:number]:
            if _overlap(one, other):
                raise UsageError(
                    f"{other.label} and {one.label} overlap: a request has one target",
                    hint="give each sector of a device to one --target",
                )
    return parts


def _part(label: str, devices: Sequence[str]) -> Part:
    found = _PART.fullmatch(label)
    if found is None or found["device"] not in devices:
        raise UsageError(
            f"there is no role '{label}', and no such device in the trace",
            hint=f"roles are {', '.join(ROLES)}; devices are {', '.join(devices)}; a part is such"
            " as sda@2048+8192 (first sector, sectors); a path with '=' needs a slash before it",
        )
    if len(label) > LABEL_MOST or not label.isascii() or not label.isprintable() or " " in label:
        raise UsageError(f"'{label}' is no name for a target: at most 31 printable ASCII letters")
    if found["first"] is None:
        return Part(label, found["device"])
    first, sectors = int(found["first"]), int(found["sectors"])
    if sectors == 0:
        raise UsageError(
            f"'{label}' is empty", hint="DEVICE@FIRST+SECTORS, in sectors of 512 bytes"
        )
    return Part(label, found["device"], first, first + sectors)


def _overlap(one: Part, other: Part) -> bool:
    if one.device != other.device:
        return False
    if one.end_sector is None or other.end_sector is None:
        return True
    return one.first_sector < other.end_sector and other.first_sector < one.end_sector


DEFAULT = "default"
NVM = "nvm"
ALIGN_SECTORS = 2048
EXTENTS_MAX = 1 << 16


@dataclass(frozen=True)
class _Partitions:
    """A device cut at the edges of its partitions; where these overlap, the smallest counts."""

    starts: list[int]
    edges: Integers
    of_piece: Integers
    """The partition before the first edge, between each two and behind the last; -1 for none."""


def _cut(entries: list[Region]) -> _Partitions:
    parts = sorted((part.start_sector, part.start_sector + part.sectors) for part in entries)
    edges = np.array(sorted({edge for part in parts for edge in part}), np.int64)
    of_piece = np.full(len(edges) + 1, -1, np.int64)
    # The smallest last, so that it overrides the larger ones.
    for one in sorted(range(len(parts)), key=lambda one: parts[one][0] - parts[one][1]):
        first, behind = np.searchsorted(edges, parts[one])
        of_piece[first + 1 : behind + 1] = one
    return _Partitions([start for start, _ in parts], edges, of_piece)


@dataclass
class _Area:
    """The addresses of one target within one partition, or one device outside partitions."""

    label: str
    device: str
    start_sector: int | None
    low_sector: int = 1 << 62
    high_sector: int = 0

    @property
    def start(self) -> int:
        """The sector that lies first on the target."""
        if self.start_sector is not None:
            return self.start_sector
        return self.low_sector // ALIGN_SECTORS * ALIGN_SECTORS if self.high_sector > 0 else 0


@dataclass
class Routes:
    """Numbers the areas that requests touch, then lays them out on the targets."""

    layout: list[Region]
    own_roles: tuple[str, ...]
    own_parts: tuple[Part, ...] = ()
    areas: list[_Area] = field(default_factory=list)
    _numbers: dict[tuple[str, str, int], int] = field(default_factory=dict)
    _cuts: dict[str, _Partitions] = field(default_factory=dict)

    def number(self, device: str, role: str, *, sector: Integers, end: Integers) -> Integers:
        """Return the area's number of each request; all are of one device and one role.

        `end` is the sector after the last; a flush has `end` equal to `sector`: it goes to a target
        of the whole device, and to none of a part of it.
        """
        numbers = np.full(len(sector), -1)
        for part in (one for one in self.own_parts if one.device == device):
            mask = (numbers < 0) & (sector >= part.first_sector)
            if part.end_sector is not None:
                mask &= (end > sector) & (sector < part.end_sector)
            if mask.any():
                numbers[mask] = self._touch(part.label, device, -1, sector[mask], end[mask])
        rest = numbers < 0
        if rest.any():
            numbers[rest] = self._number_by_role(device, role, sector[rest], end[rest])
        return numbers

    def _number_by_role(self, device: str, role: str, sector: Integers, end: Integers) -> Integers:
        if role not in self.own_roles:
            return np.full(len(sector), self._touch(DEFAULT, device, -1, sector, end))
        parts = self._partitions(device)
        part = parts.of_piece[np.searchsorted(parts.edges, sector, side="right")]
        numbers = np.empty(len(sector), np.int64)
        for one in np.flatnonzero(np.bincount(part + 1)) - 1:
            mask = part == one
            numbers[mask] = self._touch(role, device, int(one), sector[mask], end[mask])
        return numbers

    def number_on(self, label: str, *, sector: Integers, end: Integers) -> int:
        """Return the area's number of requests that have their address on the target `label`."""
        return self._touch(label, "", -1, sector, end)

    def _partitions(self, device: str) -> _Partitions:
        if device not in self._cuts:
            self._cuts[device] = _cut(
                [part for part in self.layout if part.device == device and part.sectors]
            )
        return self._cuts[device]

    def _touch(self, label: str, device: str, part: int, sector: Integers, end: Integers) -> int:
        key = (label, device, part)
        if key not in self._numbers:
            if len(self.areas) == EXTENTS_MAX:
                raise InputError("the trace has more than 65,536 devices and partitions")
            start = self._partitions(device).starts[part] if part >= 0 else None
            known = {DEFAULT: 0, NVM: 0, **{own.label: own.first_sector for own in self.own_parts}}
            self._numbers[key] = len(self.areas)
            self.areas.append(_Area(label, device, known.get(label, start)))
        number = self._numbers[key]
        area = self.areas[number]
        has_place = end > sector
        if has_place.any():
            area.low_sector = min(area.low_sector, int(sector[has_place].min()))
            area.high_sector = max(area.high_sector, int(end[has_place].max()))
        return number

    def tables(self, *, trace_sha256: bytes, level: str) -> Tables:
        """Lay the areas out, in order of device and address on each target."""
        labels = sorted({area.label for area in self.areas}, key=lambda one: (one == DEFAULT, one))
        self._check_labels(labels)
        next_sector = dict.fromkeys(labels, 0)
        needed = dict.fromkeys(labels, 0)
        extents: dict[int, Extent] = {}
        places = [(area.device, area.start, number) for number, area in enumerate(self.areas)]
        for device, start, number in sorted(places):
            area = self.areas[number]
            sectors = max(area.high_sector - start, 0)
            at = next_sector[area.label]
            extents[number] = Extent(device, start, sectors, labels.index(area.label), at)
            needed[area.label] = max(needed[area.label], (at + sectors) * SECTOR_BYTES)
            next_sector[area.label] = at + -(-sectors // ALIGN_SECTORS) * ALIGN_SECTORS
        return Tables(
            labels=tuple(labels),
            needed_bytes=tuple(needed[label] for label in labels),
            extents=tuple(extents[number] for number in range(len(self.areas))),
            trace_sha256=trace_sha256,
            level=level,
        )

    def _check_labels(self, labels: list[str]) -> None:
        for role in self.own_roles:
            if role not in labels:
                raise UsageError(
                    f"the trace has no requests of role '{role}' for its target",
                    hint="leave that --target out, or run tracekit classify first",
                )
        for part in self.own_parts:
            if part.label not in labels:
                raise UsageError(
                    f"the trace has no requests on '{part.label}' for its target",
                    hint="leave that --target out",
                )
