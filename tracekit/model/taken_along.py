"""Metadata and journal blocks that go to the NVM with a file or directory.

What moves to the NVM lies in a file system there, which has metadata and a journal of its own. Of
which file the old one's were, no trace says. So this is assumed: a request for them is for the
unit of whose files a block of the same file system was requested last before, as `fsync` writes a
file's blocks and then the journal. A block goes with the unit that most of its requests are for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tracekit._native.placement import READ, WRITE, Rows
from tracekit.arrow import Integers
from tracekit.metadata import Region
from tracekit.model.block_orders import TouchedBlocks
from tracekit.model.placement import ChargedTrace
from tracekit.tables import ROLES
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES

SECTORS = BLOCK_BYTES // SECTOR_BYTES


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


@dataclass
class Votes:
    """How many requests for each block of metadata and journal are for each unit."""

    touched: TouchedBlocks
    unit_of: Integers
    system: Integers
    last: dict[int, int] = field(default_factory=dict)
    """The unit that was last requested, by file system."""
    codes: list[Integers] = field(default_factory=list)
    counts: list[Integers] = field(default_factory=list)

    def add(self, rows: Rows, units: int) -> None:
        """Take the next requests of the trace."""
        devices, keys = self.touched.devices[rows.device], self.touched.keys
        place = rows.sector // SECTORS - devices["first_block"]
        key = devices["first_key"] + place
        at = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        is_known = (place >= 0) & (place < devices["blocks"]) & (keys[at] == key)
        is_data = is_known & ((rows.action == READ) | (rows.action == WRITE))
        last_sector = rows.sector + np.maximum(rows.length_bytes // SECTOR_BYTES, 1) - 1
        count = np.minimum(last_sector // SECTORS - rows.sector // SECTORS + 1, len(keys) - at)
        found: list[Integers] = []
        for system, before in self.last.items():
            mine = np.flatnonzero(is_data & (self.system[at] == system))
            unit = np.append(before, self.unit_of[at[mine]])
            places = np.where(unit >= 0, np.arange(len(unit)), 0)
            owner = unit[np.maximum.accumulate(places)]
            self.last[system] = int(owner[-1])
            is_along = (unit[1:] < 0) & (owner[1:] >= 0)
            first, size = at[mine[is_along]], count[mine[is_along]]
            starts = np.repeat(first - np.append(0, size.cumsum()[:-1])[: len(size)], size)
            found.append(
                (starts + np.arange(len(starts))) * units + owner[1:][is_along].repeat(size)
            )
        codes, counts = np.unique(np.concatenate(found), return_counts=True)
        self.codes.append(codes)
        self.counts.append(counts)

    def winners(self, units: int) -> Integers:
        """Return each block's unit with the most requests, the first of equal ones; -1: none."""
        codes, where = np.unique(np.concatenate(self.codes), return_inverse=True)
        count = np.bincount(where, np.concatenate(self.counts), minlength=len(codes))
        order = np.lexsort((codes, -count, codes // units))
        blocks, first = np.unique(codes[order] // units, return_index=True)
        found = np.full(len(self.unit_of), -1, np.int64)
        found[blocks] = codes[order][first] % units
        is_own = np.isin(self.touched.role, [ROLES.index("fs"), ROLES.index("journal")])
        return np.where(is_own & (self.unit_of < 0), found, -1)


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
    votes = Votes(trace.touched, unit_of, system, dict.fromkeys(with_files, -1))
    for rows in trace.rows():
        votes.add(rows, units)
    return votes.winners(units)
