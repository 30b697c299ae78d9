"""What units take of the NVM when they are carried out, beside their own bytes.

Files and directories move into a file system of the NVM's own, with its inodes and its journal; a
journal is no smaller than Linux takes it; a logical volume's extents stand beside LVM's own data.
The script of `carry_out` needs what is charged here, so an answer fits if that fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from msgspec import structs

from tracekit.arrow import Integers
from tracekit.metadata import Region
from tracekit.model.placement_units import EXTENT, FS, JOURNAL, ROLE, Units
from tracekit.model.taken_along import has_journal
from tracekit.units import MIB, SECTOR_BYTES

EXT = ("ext3", "ext4")
LEAST_JOURNAL_MIB = 5
"""Linux takes no external journal with fewer than 1,024 blocks beside its super block."""
FILES_BYTES, FILES_PARTS = 8 * MIB, 10
"""What an ext4 on the NVM takes beside its files: so much, and a tenth of them."""
VOLUME_BYTES = 4 * MIB
"""LVM's own data on a device, and what its extents leave over."""
TABLE_BYTES = 2 * MIB
"""A partition table at both ends, where the NVM is divided; each part is of whole MiB then."""
MOVED = "moved"


@dataclass(frozen=True)
class Charges:
    """Bytes of the NVM by unit, and what several units pay once."""

    bytes: Integers
    group: Integers
    """By unit: which of `shared` the first one of its kind pays; -1: none."""
    shared: Integers
    parts: Integers
    """By unit: how many parts of the NVM it has for itself; a group has one together."""

    def cumulative(self, order: Integers) -> Integers:
        """Return what the first 0, 1, 2 ... units of an order take together."""
        steps, parts = self.bytes[order], self.parts[order]
        group = self.group[order]
        for number, size in enumerate(self.shared.tolist()):
            first = np.flatnonzero(group == number)[:1]
            steps[first] += size
            parts[first] += 1
        found: Integers = np.append(0, steps.cumsum() + divided_bytes(parts.cumsum()))
        return found

    @property
    def most_divided(self) -> int:
        """What dividing the NVM takes at most."""
        return int(divided_bytes(np.array(self.parts.sum() + len(self.shared))))

    def of(self, chosen: Sequence[int] | Integers) -> int:
        """Return what some units take together."""
        order = np.asarray(chosen, np.int64)
        if self._is_plain:
            return int(self.bytes[order].sum())
        return int(self.cumulative(order)[-1])

    @cached_property
    def _is_plain(self) -> bool:
        """Whether units take their own bytes and nothing else."""
        return not len(self.shared) and not self.parts.any() and not self.most_divided

    @property
    def alone(self) -> Integers:
        """What each unit takes without the others."""
        found: Integers = self.bytes + np.append(self.shared, 0)[self.group]
        return found + divided_bytes(self.parts)


def node_of(region: Region) -> str:
    """Return the kernel's name of a region's device."""
    return region.node if isinstance(region.node, str) else str(region.name)


def is_volume(device: str) -> bool:
    """Say whether a kernel's name is the device mapper's, of which LVM makes logical volumes."""
    return device.startswith("dm-")


def file_systems(layout: Sequence[Region]) -> list[Region]:
    """Return each file system once, with all its sectors: a volume may lie in several pieces."""
    found: dict[str, Region] = {}
    for one in layout:
        if one.role == FS and one.name:
            before = found[one.name].sectors if one.name in found else 0
            found[one.name] = structs.replace(one, sectors=before + one.sectors)
    return [*found.values()]


@dataclass(frozen=True)
class Journal:
    """A journal that moves: of which file system, its regions, and what it takes of the NVM."""

    system: Region | None
    regions: tuple[Region, ...]
    mib: int


def find_journals(layout: Sequence[Region], touched_bytes: int) -> list[Journal]:
    """Return the journals of a layout, with no more known than what was touched one of an ext4."""
    known = [one for one in layout if one.role == JOURNAL]
    found: list[Journal] = []
    for system in file_systems(layout):
        mine = tuple(one for one in known if has_journal(system, one))
        if mine or not known:
            found.append(_journal(system, mine, touched_bytes))
    return found or [_journal(None, (), touched_bytes)]


def _journal(system: Region | None, regions: tuple[Region, ...], touched_bytes: int) -> Journal:
    size = sum(one.sectors for one in regions) * SECTOR_BYTES or touched_bytes
    is_ext = system is None or system.filesystem in (*EXT, None)
    return Journal(system, regions, max(-(-size // MIB), LEAST_JOURNAL_MIB if is_ext else 1))


def divided_bytes(parts: Integers) -> Integers:
    """Return what is lost where the NVM has several parts."""
    found: Integers = np.where(parts > 1, TABLE_BYTES + parts * MIB, 0)
    return found


def moved_bytes(sizes: Integers, along: Integers) -> Integers:
    """Return what files take in a file system of their own, or with what goes along if more."""
    found: Integers = sizes + np.maximum(-(-sizes // FILES_PARTS), along)
    return found


def find_charges(units: Units, regions: Sequence[Region]) -> Charges:
    """Return what each unit takes of the NVM by the way it is carried out."""
    groups = _groups(units)
    shared = list(dict.fromkeys(one for one in groups if one))
    is_moved = np.array([one == MOVED for one in groups], bool)
    taken = np.where(is_moved, moved_bytes(units.bytes, units.along_bytes), units.bytes)
    has_roles = ROLE in units.kinds
    parts = np.array([has_roles and not one for one in groups], np.int64)
    if has_roles:
        for place, name in enumerate(units.names):
            if name == FS:
                systems = file_systems(regions)
                volumes = sum(is_volume(node_of(one)) for one in systems)
                taken[place] += volumes * VOLUME_BYTES
                parts[place] = max(len(systems), 1)
            elif name == JOURNAL:
                found = find_journals(regions, int(units.bytes[place]))
                taken[place] = sum(one.mib for one in found) * MIB
                parts[place] = len(found)
    return Charges(
        taken,
        np.array([shared.index(one) if one else -1 for one in groups], np.int64),
        np.array([FILES_BYTES if one == MOVED else VOLUME_BYTES for one in shared], np.int64),
        parts,
    )


def _groups(units: Units) -> list[str]:
    """Return with which others each unit shares a file system or physical volume; "": with none."""
    if EXTENT in units.kinds[:1]:  # all are
        volumes = {one for one in set(units.devices) if is_volume(one)}
        return [one if one in volumes else "" for one in units.devices]
    return [MOVED if kind != ROLE else "" for kind in units.kinds]
