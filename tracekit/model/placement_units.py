"""The units of a trace: roles, files, directories, logs, or extents such as those of LVM.

A single block cannot be moved by hand, a unit can: whole, with what the trace did not touch, and
with what goes along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tracekit._native.placement import PLACED_ROLES
from tracekit.arrow import Integers
from tracekit.errors import UsageError
from tracekit.metadata import Region
from tracekit.model.best_placement import OnNvm
from tracekit.model.block_orders import TouchedBlocks
from tracekit.model.file_extents import (
    FILE_COLUMNS,
    FILES_HINT,
    FileExtent,
    by_directory,
    read_extents,
    read_file_map,
    read_logs,
)
from tracekit.model.placement import ChargedTrace
from tracekit.model.taken_along import find_taken_along, is_in_file_system
from tracekit.tables import ROLES
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES, parse_size

ROLE, FILE, DIRECTORY, LOG = "role", "file", "directory", "log"
EXTENT, BLOCK = "extent", "block"
FS, JOURNAL = "fs", "journal"
WORDS = f"{ROLE}, {FILE}, {DIRECTORY}, {LOG}, {EXTENT}=SIZE"
CARRIED_ROLES = (JOURNAL, "swap")
"""Roles that are units beside files, because they can be moved as a whole."""
LARGEST_EXTENT, LEAST_EXTENTS = 4 << 20, 16
"""The first is that of LVM, which moves no smaller ones."""
UNKNOWN_RATIO = 0.5
"""From more than this share of the time without a role, extents are the default."""


@dataclass(frozen=True)
class UnitChoice:
    """Which units to place."""

    kind: str
    extent_bytes: int = 0
    files: Path | None = None
    """A table that the user gives, in place of `file_map`."""
    file_map: Path | None = None
    """The trace's own."""
    is_default: bool = False


@dataclass(frozen=True)
class Units:
    """Units of a trace: `unit_of` is each touched block's, -1 for none."""

    names: list[str]
    kinds: list[str]
    devices: list[str]
    first_blocks: Integers
    bytes: Integers
    unit_of: Integers
    taken_with: Integers | None = None
    """The unit with which each block goes along that is not its own, -1 for none."""
    skipped_rows: int = 0
    linked_files: int = 0

    def __len__(self) -> int:
        """Return the number of units."""
        return len(self.names)

    @property
    def along_bytes(self) -> Integers:
        """Return the touched bytes that go along with each unit."""
        if self.taken_with is None:
            return np.zeros(len(self), np.int64)
        along = self.taken_with[self.taken_with >= 0]
        return np.bincount(along, minlength=len(self)) * BLOCK_BYTES

    @property
    def owner_of(self) -> Integers:
        """Return with which unit each block moves, its own or the one it goes along with."""
        if self.taken_with is None:
            return self.unit_of
        return np.where(self.unit_of < 0, self.taken_with, self.unit_of)

    def placed_blocks(self, chosen: Integers) -> OnNvm:
        """Return which touched blocks move with these units: theirs, and what goes along."""
        is_chosen = self._is_chosen(chosen)
        on_nvm = is_chosen[self.unit_of]
        return on_nvm if self.taken_with is None else on_nvm | is_chosen[self.taken_with]

    def along_blocks(self, chosen: Integers) -> int:
        """Return how many blocks move only because they go along with one of these units."""
        is_own = self._is_chosen(chosen)[self.unit_of]
        return int(np.count_nonzero(self.placed_blocks(chosen)) - np.count_nonzero(is_own))

    def _is_chosen(self, chosen: Integers) -> OnNvm:
        found = np.zeros(len(self) + 1, np.uint8)  # the last is of no unit
        found[chosen] = 1
        return found


def choose_unit(
    text: str,
    *,
    files: Path | None,
    file_map: Path | None = None,
    capacity_bytes: int,
    unknown_ratio: float,
    is_volume: bool = False,
) -> UnitChoice | None:
    """Return what `--unit` asks for; without it extents where roles are not known, else None."""
    kind, has_size, size = text.partition("=")
    if has_size and kind != EXTENT:
        raise UsageError(
            f"--unit {text}: only {EXTENT} has a size", hint=f"one of {WORDS}, {BLOCK}"
        )
    _refuse_unnamed(kind, files, file_map)
    if files is not None and kind not in (FILE, DIRECTORY):
        raise UsageError("--files is for --unit file or directory", hint="leave one of them out")
    if not text and unknown_ratio <= UNKNOWN_RATIO:
        return None
    if kind == EXTENT or not text:
        default = LARGEST_EXTENT if is_volume else default_extent(capacity_bytes)
        extent = parse_size(size, option="--unit") if has_size else default
        if extent < BLOCK_BYTES or extent % BLOCK_BYTES:
            raise UsageError(
                f"--unit {text}: not a multiple of 4 KiB", hint="such as extent=4MiB, LVM's own"
            )
        return UnitChoice(EXTENT, extent, is_default=not text)
    if kind == BLOCK:
        return None
    if kind not in (ROLE, FILE, DIRECTORY, LOG):
        raise UsageError(f"--unit {text}: not one of {WORDS}, {BLOCK}")
    return UnitChoice(kind, files=files, file_map=file_map)


def _refuse_unnamed(kind: str, files: Path | None, file_map: Path | None) -> None:
    """Refuse units that have names where nothing names the blocks."""
    if kind in (FILE, DIRECTORY, LOG) and files is None and file_map is None:
        how = "tracekit classify --names" if kind == LOG else "--files"
        raise UsageError(
            f"--unit {kind}: the trace has no map of files; give their extents with {how}",
            hint=FILES_HINT,
        )
    if kind == LOG and file_map is not None and not read_logs(file_map):
        raise UsageError(
            "--unit log: no file of the trace's map is a log of a database that a rule knows",
            hint="give rules of your own with tracekit classify --logs",
        )


def default_extent(capacity_bytes: int) -> int:
    """Return LVM's 4 MiB, or the largest power of two of which the capacity holds 16."""
    fitting = max(capacity_bytes // LEAST_EXTENTS, BLOCK_BYTES)
    return min(LARGEST_EXTENT, 1 << (fitting.bit_length() - 1))


def find_units(trace: ChargedTrace, choice: UnitChoice, *, regions: Sequence[Region]) -> Units:
    """Return the units of a trace, in the order of their first blocks."""
    touched = trace.touched
    device, block = where = block_addresses(touched)
    if choice.kind == EXTENT:
        return _extents(touched, choice.extent_bytes, device=device, block=block)
    if choice.kind == ROLE:
        roles = _roles(touched, ROLES[:PLACED_ROLES], regions, device=device, block=block)
        found = _with_logs(roles, touched, choice.file_map, device=device, block=block)
        return _with_contents(found, is_in_file_system(touched.device_names, regions, where=where))
    extents, left_out = _extents_of(choice, touched, regions, device=device, block=block)
    found = _files(touched, extents, choice.kind, device=device, block=block)
    carried = CARRIED_ROLES if choice.kind != LOG else ()
    roles = _roles(touched, carried, regions, device=device, block=block)
    in_role = (found.unit_of < 0) & (roles.unit_of >= 0)
    return Units(
        found.names + roles.names,
        found.kinds + roles.kinds,
        found.devices + roles.devices,
        np.append(found.first_blocks, roles.first_blocks),
        np.append(found.bytes, roles.bytes),
        np.where(in_role, roles.unit_of + len(found), found.unit_of),
        find_taken_along(trace, found.unit_of, regions=regions, where=where),
        *left_out,
    )


def _with_contents(roles: Units, is_inside: NDArray[np.bool_]) -> Units:
    """Return roles of which the file system takes along what else lies in it, as journal or log."""
    if FS not in roles.names:
        return roles
    fs = roles.names.index(FS)
    return replace(roles, taken_with=np.where(is_inside & (roles.unit_of != fs), fs, -1))


def _extents_of(
    choice: UnitChoice,
    touched: TouchedBlocks,
    regions: Sequence[Region],
    *,
    device: Integers,
    block: Integers,
) -> tuple[list[FileExtent], tuple[int, int]]:
    """Return the extents of files, directories or logs.

    Also how many rows are on other devices, and how many files have names elsewhere.
    """
    if choice.kind == LOG and choice.file_map is not None:
        return read_logs(choice.file_map), (0, 0)
    folders: set[str] = set()
    skipped, linked = 0, 0
    if choice.files is None and choice.file_map is not None:
        names = touched.device_names
        blocks = {name: np.sort(block[device == place]) for place, name in enumerate(names)}
        with_neighbours = choice.kind == DIRECTORY
        extents, folders = read_file_map(choice.file_map, blocks, with_neighbours=with_neighbours)
    else:
        given = read_extents(choice.files or Path(), touched.device_names, regions=regions)
        extents, linked = given.whole(in_directories=choice.kind == DIRECTORY)
        skipped = given.skipped_rows
    if choice.kind == DIRECTORY:
        extents = by_directory(extents, folders, mounts={one.mount for one in regions if one.mount})
    return extents, (skipped, linked)


def _with_logs(
    roles: Units,
    touched: TouchedBlocks,
    file_map: Path | None,
    *,
    device: Integers,
    block: Integers,
) -> Units:
    """Return the roles without the logs of databases, which are units of their own."""
    extents = read_logs(file_map) if file_map is not None else []
    logs = _files(touched, extents, LOG, device=device, block=block)
    fs = roles.names.index(FS) if FS in roles.names else -1
    in_log = (logs.unit_of >= 0) & (roles.unit_of == fs)
    if fs < 0 or not in_log.any():
        return roles
    kept = np.flatnonzero(np.bincount(logs.unit_of[in_log], minlength=len(logs)))
    number = np.full(len(logs) + 1, -1)
    number[kept] = np.arange(len(kept)) + len(roles)
    return Units(
        roles.names + [logs.names[one] for one in kept.tolist()],
        roles.kinds + [LOG] * len(kept),
        roles.devices + [logs.devices[one] for one in kept.tolist()],
        np.append(roles.first_blocks, logs.first_blocks[kept]),
        np.append(roles.bytes, logs.bytes[kept]),
        np.where(in_log, number[logs.unit_of], roles.unit_of),
    )


def block_addresses(touched: TouchedBlocks) -> tuple[Integers, Integers]:
    """Return the device (its index) and the 4 KiB block number of each touched block."""
    count = len(touched.device_names)
    first_keys = touched.devices["first_key"][:count]
    used = np.flatnonzero(touched.devices["blocks"][:count])
    order = used[np.argsort(first_keys[used], kind="stable")]
    where = np.searchsorted(first_keys[order], touched.keys, side="right") - 1
    device = order[where] if len(order) else np.zeros(0, np.int64)
    return device, touched.keys - first_keys[device] + touched.devices["first_block"][device]


def _extents(touched: TouchedBlocks, size: int, *, device: Integers, block: Integers) -> Units:
    """Return the touched extents, aligned to the start of their device."""
    blocks = size // BLOCK_BYTES
    number = block // blocks
    is_new = np.append(True, (np.diff(device) != 0) | (np.diff(number) != 0))[: len(block)]
    first = np.flatnonzero(is_new)
    names = [touched.device_names[one] for one in device[first].tolist()]
    return Units(
        [f"{name} extent {n}" for name, n in zip(names, number[first].tolist(), strict=True)],
        [EXTENT] * len(first),
        names,
        number[first] * blocks,
        np.full(len(first), size, np.int64),
        np.cumsum(is_new) - 1,
    )


def _roles(
    touched: TouchedBlocks,
    roles: Sequence[str],
    regions: Sequence[Region],
    *,
    device: Integers,
    block: Integers,
) -> Units:
    """Return the touched roles; what the layout gives a role whole takes all its space."""
    sizes = region_bytes([one for one in regions if one.device in touched.device_names])
    names: list[str] = []
    devices, firsts, unit_bytes = [], [], []
    unit_of = np.full(len(block), -1, np.int64)
    for role in roles:
        mine = np.flatnonzero(touched.role == ROLES.index(role))
        if len(mine):
            unit_of[mine] = len(names)
            names.append(role)
            devices.append(touched.device_names[int(device[mine[0]])])
            firsts.append(int(block[mine[0]]))
            unit_bytes.append(max(len(mine) * BLOCK_BYTES, sizes.get(role, 0)))
    return Units(
        names,
        [ROLE] * len(names),
        devices,
        np.array(firsts, np.int64),
        np.array(unit_bytes, np.int64),
        unit_of,
    )


def region_bytes(regions: Sequence[Region]) -> dict[str, int]:
    """Return the bytes of each role in a layout, with all that lies within its regions."""
    found: dict[str, int] = {}
    reached: dict[tuple[str, str], int] = {}
    for one in sorted(regions, key=lambda one: one.start_sector):
        end, place = one.start_sector + one.sectors, (str(one.role), one.device)
        begin = max(one.start_sector, reached.get(place, 0))
        found[place[0]] = found.get(place[0], 0) + max(end - begin, 0) * SECTOR_BYTES
        reached[place] = max(end, reached.get(place, 0))
    return found


def _extent_of(extents: Sequence[FileExtent], block: Integers) -> Integers:
    """Return which of a device's extents, ascending, has each block or a part of it; -1: none."""
    if not extents:
        return np.full(len(block), -1)
    first, sectors = (np.array([getattr(one, key) for one in extents]) for key in FILE_COLUMNS[2:])
    start = block * (BLOCK_BYTES // SECTOR_BYTES)
    at = np.searchsorted(first, start + BLOCK_BYTES // SECTOR_BYTES) - 1
    return np.where((at >= 0) & ((first + sectors)[at] > start), at, -1)


def _files(
    touched: TouchedBlocks,
    extents: Sequence[FileExtent],
    kind: str,
    *,
    device: Integers,
    block: Integers,
) -> Units:
    """Return the touched files or directories; what is not touched of them takes space too."""
    paths = list(dict.fromkeys(one.path for one in extents))
    number = {path: place for place, path in enumerate(paths)}
    sizes = np.zeros(len(paths), np.int64)
    for one in extents:
        sizes[number[one.path]] += -(-one.sectors * SECTOR_BYTES // BLOCK_BYTES) * BLOCK_BYTES
    owner = np.full(len(block), -1, np.int64)
    for place, name in enumerate(touched.device_names):
        of_device = np.flatnonzero(device == place)
        mine = [one for one in extents if one.device == name]
        mine.sort(key=lambda one: one.first_sector)
        which = _extent_of(mine, block[of_device])
        unit = np.array([*(number[one.path] for one in mine), -1])
        owner[of_device] = unit[which]
    used, first_at, where = np.unique(owner, return_index=True, return_inverse=True)
    kept = used >= 0
    unit_of = np.where(owner >= 0, where - int(np.count_nonzero(~kept)), -1)
    chosen, first_at = used[kept], first_at[kept]
    names = [paths[one] for one in chosen.tolist()]
    return Units(
        names,
        [kind if kind != DIRECTORY or name.endswith("/") else FILE for name in names],
        [touched.device_names[one] for one in device[first_at].tolist()],
        block[first_at],
        sizes[chosen],
        unit_of,
    )
