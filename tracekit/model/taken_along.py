"""Metadata and journal blocks that go to the NVM with a file or directory.

What moves to the NVM lies in a file system there, which has metadata and a journal of its own. Of
which file the old one's were, no trace says. So this is assumed: a request for them is for the
unit of whose files a block of the same file system was requested last before, as `fsync` writes a
file's blocks and then the journal. A block goes with the unit that most of its requests are for.
Metadata is what all requests for it are marked as; the data of a file in no unit goes with none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tracekit._native.placement import READ, WRITE, Rows
from tracekit.arrow import Integers
from tracekit.metadata import Region
from tracekit.model.block_orders import TouchedBlocks
from tracekit.model.placement import ChargedTrace
from tracekit.tables import ROLES
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES

SECTORS = BLOCK_BYTES // SECTOR_BYTES
FS, JOURNAL = ROLES.index("fs"), ROLES.index("journal")


def has_journal(system: Region, journal: Region) -> bool:
    """Say whether a journal is that file system's: in it, or on a device that names it."""
    inside = journal.name == f"{system.name} journal"
    return inside or str(system.name) in re.split(r"[ ,]+", journal.evidence or "")


def find_systems(
    names: Sequence[str], regions: Sequence[Region], *, device: Integers, block: Integers
) -> Integers:
    """Return the file system of each block, its journal included; without a layout its device."""
    found = device + len(regions)
    systems = {place: one for place, one in enumerate(regions) if one.role == "fs"}
    journals = [one for one in regions if one.role == "journal"]
    for place, system in systems.items():
        for one in (system, *(other for other in journals if has_journal(system, other))):
            if one.device in names:
                first, end = one.start_sector // SECTORS, one.start_sector + one.sectors
                is_in = (device == names.index(one.device)) & (block >= first)
                found[is_in & (block * SECTORS < end)] = place
    return found


def is_in_file_system(
    names: Sequence[str], regions: Sequence[Region], *, where: tuple[Integers, Integers]
) -> NDArray[np.bool_]:
    """Say which blocks lie within a file system of the layout, whatever their role."""
    device, block = where
    found = np.zeros(len(block), bool)
    for one in regions:
        if one.role == "fs" and one.device in names:
            first, end = one.start_sector // SECTORS, one.start_sector + one.sectors
            is_on = device == names.index(one.device)
            found |= is_on & (block >= first) & (block * SECTORS < end)
    return found


@dataclass
class Votes:
    """How many requests for each block of metadata and journal are for each unit.

    What is in no unit and no metadata is of other files: `units` stands for all of them.
    """

    touched: TouchedBlocks
    unit_of: Integers
    system: Integers
    units: int
    last: dict[int, int]
    """The unit that was last requested, by file system; -1: none yet."""
    is_data: NDArray[np.bool_]
    """By block: a request for it was for data."""
    codes: list[Integers] = field(default_factory=list)
    counts: list[Integers] = field(default_factory=list)

    def add(self, rows: Rows) -> None:
        """Take the next requests of the trace."""
        at, count = self._places(rows)
        is_asked = count > 0
        is_meta = np.zeros(len(at), bool) if rows.is_meta is None else rows.is_meta != 0
        is_along = (self.unit_of[at] < 0) & (is_meta | (self.touched.role[at] == JOURNAL))
        is_other = is_asked & (self.unit_of[at] < 0) & ~is_along
        self.is_data[_each(at[is_other], count[is_other])] = True
        asker = np.where(is_along, -1, np.where(is_other, self.units, self.unit_of[at]))
        found: list[Integers] = []
        for system, before in self.last.items():
            mine = np.flatnonzero(is_asked & (self.system[at] == system))
            unit = np.append(before, asker[mine])
            places = np.where(unit >= 0, np.arange(len(unit)), 0)
            owner = unit[np.maximum.accumulate(places)]
            self.last[system] = int(owner[-1])
            voted = (unit[1:] < 0) & (owner[1:] >= 0)
            first, size = at[mine[voted]], count[mine[voted]]
            found.append(_each(first, size) * (self.units + 1) + owner[1:][voted].repeat(size))
        codes, counts = np.unique(np.concatenate(found), return_counts=True)
        self.codes.append(codes)
        self.counts.append(counts)

    def _places(self, rows: Rows) -> tuple[Integers, Integers]:
        """Return the first block of each read or write, and how many; 0 of all others."""
        devices, keys = self.touched.devices[rows.device], self.touched.keys
        place = rows.sector // SECTORS - devices["first_block"]
        key = devices["first_key"] + place
        at = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        is_known = (place >= 0) & (place < devices["blocks"]) & (keys[at] == key)
        is_asked = is_known & ((rows.action == READ) | (rows.action == WRITE))
        last_sector = rows.sector + np.maximum(rows.length_bytes // SECTOR_BYTES, 1) - 1
        count = np.minimum(last_sector // SECTORS - rows.sector // SECTORS + 1, len(keys) - at)
        return at, np.where(is_asked, count, 0)

    def winners(self) -> Integers:
        """Return each block's unit with the most requests, the first of equal ones; -1: none."""
        codes, where = np.unique(np.concatenate(self.codes), return_inverse=True)
        count = np.bincount(where, np.concatenate(self.counts), minlength=len(codes))
        voters = self.units + 1
        order = np.lexsort((codes, -count, codes // voters))
        blocks, first = np.unique(codes[order] // voters, return_index=True)
        found = np.full(len(self.unit_of), -1, np.int64)
        found[blocks] = codes[order][first] % voters
        is_own = np.isin(self.touched.role, [FS, JOURNAL]) & ~self.is_data
        return np.where(is_own & (self.unit_of < 0) & (found < self.units), found, -1)


def _each(first: Integers, count: Integers) -> Integers:
    """Return the numbers of spans, `count` each, one after the other."""
    starts = np.repeat(first - np.append(0, count.cumsum()[:-1])[: len(count)], count)
    return starts + np.arange(len(starts))


def find_taken_along(
    trace: ChargedTrace,
    unit_of: Integers,
    *,
    regions: Sequence[Region],
    where: tuple[Integers, Integers],
) -> Integers:
    """Return the unit with which each block that is in no file goes along; -1: with none."""
    device, block = where
    system = find_systems(trace.touched.device_names, regions, device=device, block=block)
    units = int(unit_of.max(initial=-1)) + 1
    with_files = np.unique(system[unit_of >= 0]).tolist()
    if not with_files:
        return np.full(len(unit_of), -1, np.int64)
    last = dict.fromkeys(with_files, -1)
    is_data = np.zeros(len(unit_of), bool)
    votes = Votes(trace.touched, unit_of, system, units, last, is_data)
    for rows in trace.rows():
        votes.add(rows)
    return votes.winners()
