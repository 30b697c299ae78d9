"""Placement of whole units: roles, files, directories, or extents such as those of LVM.

A single block cannot be moved by hand, a unit can. Each unit takes all its bytes of the NVM, also
those that the trace did not touch, and is placed whole or not at all. Times are exact, by the event
simulation: one pass over the trace times every beginning of an order of units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit._native import placement as native
from tracekit.arrow import Floats, Integers
from tracekit.devices import Profile
from tracekit.errors import UsageError
from tracekit.metadata import Record, Region
from tracekit.model.block_orders import OrderedBlocks, TouchedBlocks
from tracekit.model.file_extents import (
    FILE_COLUMNS,
    FILES_HINT,
    FileExtent,
    by_directory,
    read_extents,
    read_file_map,
    read_logs,
)
from tracekit.model.placement import ChargedTrace, distinct, to_ns
from tracekit.model.taken_along import find_taken_along
from tracekit.tables import ROLE_NAMES, ROLES, UNITS
from tracekit.units import (
    BLOCK_BYTES,
    PS_PER_NS,
    SECTOR_BYTES,
    format_duration,
    format_size,
    parse_size,
)

TABLE = "simulations/units"
ROLE, FILE, DIRECTORY, EXTENT, BLOCK = "role", "file", "directory", "extent", "block"
FS = "fs"
WORDS = f"{ROLE}, {FILE}, {DIRECTORY}, {EXTENT}=SIZE"
CARRIED_ROLES = ("journal", "swap")
"""Roles that are units beside files, because they can be moved as a whole."""
LARGEST_EXTENT, LEAST_EXTENTS = 4 << 20, 16
UNKNOWN_RATIO = 0.5
"""From more than this share of the time without a role, extents are the default."""
ROUNDS = 3
POINTS, OPEN_POINTS, SHOWN_POINTS = 1024, 64, 32
SHOWN_UNITS, NAMED_UNITS = 16, 4
KNAPSACK_STEPS, KNAPSACK_UNITS = 1000, 2000


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


class PlacedUnit(Record):
    """A unit that the answer places; adjacent extents are one."""

    name: str
    device: str
    bytes: int
    saving_ns: int


class UnitPoint(Record):
    """What whole units reach at a capacity, in the order of the answer."""

    capacity_bytes: int
    units: int
    elapsed_ns: int
    gain_ratio: float


class UnitAnswer(Record, kw_only=True):
    """Which whole units to place at the headline's capacity; the table has every unit."""

    unit: str
    extent_bytes: int = 0
    is_default: bool = False
    capacity_bytes: int
    placed_count: int
    unit_count: int
    bytes: int
    touched_bytes: int
    """Of the placed units."""
    outside_bytes: int
    """Touched bytes that are in no unit."""
    along_bytes: int = 0
    """Touched metadata and journal that go along with placed files and directories."""
    base_elapsed_ns: int
    elapsed_ns: int
    gain_ratio: float
    placed: list[PlacedUnit]
    """The first ones, by saving."""
    curve: list[UnitPoint]
    skipped_rows: int = 0
    """Rows of the table of files on devices that the trace does not have."""


@dataclass(frozen=True)
class Units:
    """Units of a trace: `unit_of` is each touched block's, -1 for none."""

    names: list[str]
    kinds: list[str]
    devices: list[str]
    first_blocks: Integers
    bytes: Integers
    unit_of: NDArray[np.int64]
    skipped_rows: int = 0
    taken_with: Integers | None = None
    """The file or directory with which each block in none goes along, -1 for none."""

    def __len__(self) -> int:
        """Return the number of units."""
        return len(self.names)


def choose_unit(
    text: str,
    *,
    files: Path | None,
    file_map: Path | None = None,
    capacity_bytes: int,
    unknown_ratio: float,
) -> UnitChoice | None:
    """Return what `--unit` asks for; without it extents where roles are not known, else None."""
    kind, has_size, size = text.partition("=")
    if kind in (FILE, DIRECTORY) and files is None and file_map is None:
        raise UsageError(
            f"--unit {kind}: the trace has no map of files; give their extents with --files",
            hint=FILES_HINT,
        )
    if files is not None and kind not in (FILE, DIRECTORY):
        raise UsageError("--files is for --unit file or directory", hint="leave one of them out")
    if not text and unknown_ratio <= UNKNOWN_RATIO:
        return None
    if kind == EXTENT or not text:
        extent = parse_size(size, option="--unit") if has_size else default_extent(capacity_bytes)
        if extent < BLOCK_BYTES or extent % BLOCK_BYTES:
            raise UsageError(
                f"--unit {text}: not a multiple of 4 KiB", hint="such as extent=4MiB, LVM's own"
            )
        return UnitChoice(EXTENT, extent, is_default=not text)
    if kind == BLOCK and not has_size:
        return None
    if kind not in (ROLE, FILE, DIRECTORY) or has_size:
        raise UsageError(f"--unit {text}: not one of {WORDS}, {BLOCK}")
    return UnitChoice(kind, files=files, file_map=file_map)


def default_extent(capacity_bytes: int) -> int:
    """Return LVM's 4 MiB, or the largest power of two of which the capacity holds 16."""
    fitting = max(capacity_bytes // LEAST_EXTENTS, BLOCK_BYTES)
    return min(LARGEST_EXTENT, 1 << (fitting.bit_length() - 1))


def find_units(trace: ChargedTrace, choice: UnitChoice, *, regions: Sequence[Region]) -> Units:
    """Return the units of a trace, in the order of their first blocks."""
    touched = trace.touched
    device, block = block_addresses(touched)
    if choice.kind == EXTENT:
        return _extents(touched, choice.extent_bytes, device=device, block=block)
    if choice.kind == ROLE:
        roles = _roles(touched, ROLES[: native.PLACED_ROLES], regions, device=device, block=block)
        return _with_logs(roles, touched, choice.file_map, device=device, block=block)
    extents, skipped = _extents_of(choice, touched, regions, device=device, block=block)
    found = _files(touched, extents, choice.kind, device=device, block=block)
    roles = _roles(touched, CARRIED_ROLES, regions, device=device, block=block)
    in_role = (found.unit_of < 0) & (roles.unit_of >= 0)
    return Units(
        found.names + roles.names,
        found.kinds + roles.kinds,
        found.devices + roles.devices,
        np.append(found.first_blocks, roles.first_blocks),
        np.append(found.bytes, roles.bytes),
        np.where(in_role, roles.unit_of + len(found), found.unit_of),
        skipped,
        find_taken_along(trace, found.unit_of, regions=regions, where=(device, block)),
    )


def _extents_of(
    choice: UnitChoice,
    touched: TouchedBlocks,
    regions: Sequence[Region],
    *,
    device: Integers,
    block: Integers,
) -> tuple[list[FileExtent], int]:
    """Return the extents of files or directories, and how many rows are on other devices."""
    folders: set[str] = set()
    if choice.files is None and choice.file_map is not None:
        names = touched.device_names
        blocks = {name: np.sort(block[device == place]) for place, name in enumerate(names)}
        with_neighbours = choice.kind == DIRECTORY
        extents, folders = read_file_map(choice.file_map, blocks, with_neighbours=with_neighbours)
        skipped = 0
    else:
        file = choice.files or Path()
        extents, skipped = read_extents(file, touched.device_names, regions=regions)
    if choice.kind == DIRECTORY:
        extents = by_directory(extents, folders, mounts={one.mount for one in regions if one.mount})
    return extents, skipped


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
    logs = _files(touched, extents, ROLE, device=device, block=block)
    fs = roles.names.index(FS) if FS in roles.names else -1
    in_log = (logs.unit_of >= 0) & (roles.unit_of == fs)
    if fs < 0 or not in_log.any():
        return roles
    kept = np.flatnonzero(np.bincount(logs.unit_of[in_log], minlength=len(logs)))
    number = np.full(len(logs) + 1, -1)
    number[kept] = np.arange(len(kept)) + len(roles)
    sizes = roles.bytes.copy()
    sizes[fs] = max(
        sizes[fs] - int(logs.bytes[kept].sum()),
        int(np.count_nonzero((roles.unit_of == fs) & ~in_log)) * BLOCK_BYTES,
    )
    return Units(
        roles.names + [logs.names[one] for one in kept.tolist()],
        roles.kinds + [ROLE] * len(kept),
        roles.devices + [logs.devices[one] for one in kept.tolist()],
        np.append(roles.first_blocks, logs.first_blocks[kept]),
        np.append(sizes, logs.bytes[kept]),
        np.where(in_log, number[logs.unit_of], roles.unit_of),
        roles.skipped_rows,
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
    """Return the bytes of each role in a layout; what lies within another region is not of that."""
    found: dict[str, int] = {}
    for number, one in enumerate(regions):
        inner = sum(
            other.sectors
            for place, other in enumerate(regions)
            if place != number
            and other.device == one.device
            and other.role != one.role
            and other.sectors < one.sectors
            and one.start_sector <= other.start_sector < one.start_sector + one.sectors
        )
        size = max(one.sectors - inner, 0) * SECTOR_BYTES
        found[str(one.role)] = found.get(str(one.role), 0) + size
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


@dataclass(frozen=True)
class Chain:
    """Times with the first units of an order on NVM; the first count is 0, the base alone."""

    order: Integers
    counts: Integers
    times_ps: Integers

    def savings_ps(self, unit_bytes: Integers) -> Floats:
        """Return what each unit saved when it moved; of several at once by their bytes."""
        found = np.zeros(len(self.order))
        steps = -np.diff(self.times_ps).astype(float)
        group = np.searchsorted(self.counts[1:], np.arange(len(self.order)), side="right")
        sizes = unit_bytes[self.order].astype(float)
        found[self.order] = steps[group] * sizes / np.bincount(group, sizes)[group]
        return found


def time_chain(trace: ChargedTrace, units: Units, *, order: Integers, exact: int) -> Chain:
    """Time the beginnings of an order of units in one pass, that of `exact` units among them."""
    most, count = (OPEN_POINTS if trace.is_open else POINTS), len(order)
    counts = np.arange(1, count + 1)
    if count > most:
        spread = np.linspace(1, count, most).astype(np.int64)
        counts = distinct([spread, *([exact] if exact else [])])
    never = len(counts)
    point_of = np.full(len(units) + 1, never, np.uint16)  # the last is of no unit
    point_of[order] = np.searchsorted(counts, np.arange(count), side="right")
    blocks = np.zeros(len(units.unit_of), np.dtype(native.BLOCK))
    blocks["role"] = trace.touched.role
    blocks["point"] = never
    point = point_of[units.unit_of]
    if units.taken_with is not None:
        point = np.minimum(point, point_of[units.taken_with])
    blocks["point"][:, native.OPTIMAL] = point
    scenarios = np.zeros(1 + never, np.dtype(native.SCENARIO))
    scenarios["order"][1:] = native.OPTIMAL
    scenarios["limit"][1:] = np.arange(1, never + 1)[:, np.newaxis]
    ordered = OrderedBlocks(blocks, np.zeros((len(ROLES), never), np.int64))
    result = native.simulate(trace.simulation(ordered, scenarios), trace.rows())
    times = result.service_ps
    if trace.is_open:
        times = [one // max(result.responses, 1) for one in result.answer_ps]
    return Chain(order, np.append(0, counts), np.array(times, np.int64))


def choose_units(value: Floats, unit_bytes: Integers, *, capacity: int) -> Integers:
    """Return the units that are worth most within a capacity, by value per byte.

    By value per byte, skipping what does not fit; where that is no proof (few units of different
    sizes), the better of this and the knapsack's solution with sizes rounded up.
    """
    density = value / unit_bytes
    by_density = np.lexsort((np.arange(len(value)), -density))
    able = by_density[(value[by_density] > 0) & (unit_bytes[by_density] <= capacity)]
    if not len(able):
        return able
    if int(unit_bytes[able].min()) == int(unit_bytes[able].max()):
        return able[: capacity // int(unit_bytes[able[0]])]
    taken, left = [], capacity
    for one, size in zip(able.tolist(), unit_bytes[able].tolist(), strict=True):
        if size <= left:
            taken.append(one)
            left -= size
    greedy = np.array(taken, np.int64)
    if len(able) > KNAPSACK_UNITS:
        return greedy
    other = _knapsack(value, unit_bytes, able, capacity)
    return other if value[other].sum() > value[greedy].sum() else greedy


def _knapsack(value: Floats, unit_bytes: Integers, able: Integers, capacity: int) -> Integers:
    """Solve the knapsack, exactly unless that takes more than KNAPSACK_STEPS steps of capacity."""
    step = max(-(-capacity // KNAPSACK_STEPS), int(np.gcd.reduce(unit_bytes[able])))
    room = capacity // step
    sizes = -(-unit_bytes[able] // step)
    best = np.zeros(room + 1)
    takes = np.zeros((len(able), room + 1), bool)
    for place, (one, size) in enumerate(zip(able.tolist(), sizes.tolist(), strict=True)):
        if size <= room:
            with_it = best[: room + 1 - size] + value[one]
            takes[place, size:] = with_it > best[size:]
            best[size:] = np.maximum(best[size:], with_it)
    chosen, left = [], room
    for place in range(len(able) - 1, -1, -1):
        if takes[place, left]:
            chosen.append(int(able[place]))
            left -= int(sizes[place])
    return np.array(chosen[::-1], np.int64)


def find_placement(trace: ChargedTrace, units: Units, *, capacity: int) -> tuple[Chain, int]:
    """Return the best chain found, and how many of its first units to place.

    Units are ordered by accesses per byte first, then by what they saved in the last chain. Nothing
    placed is among what is compared, so the answer is never worse than the base alone.
    """
    known = units.unit_of >= 0
    accesses = trace.touched.accesses[known].astype(float)
    value: Floats = np.bincount(units.unit_of[known], accesses, minlength=len(units)).astype(float)
    best: tuple[Chain, int, int] | None = None
    for _ in range(ROUNDS):
        chosen = choose_units(value, units.bytes, capacity=capacity)
        rest = np.setdiff1d(np.arange(len(units)), chosen)
        rest = rest[np.argsort(-(value / units.bytes)[rest], kind="stable")]
        order = np.append(chosen, rest).astype(np.int64)
        if best is not None and np.array_equal(order, best[0].order):
            break
        chain = time_chain(trace, units, order=order, exact=len(chosen))
        fitting = np.flatnonzero(chain.counts <= len(chosen))
        at = int(chain.times_ps[fitting].argmin())
        if best is None or int(chain.times_ps[at]) < best[2]:
            best = chain, int(chain.counts[at]), int(chain.times_ps[at])
        value = chain.savings_ps(units.bytes)
    assert best is not None  # noqa: S101 - there is a first round
    return best[0], best[1]


def place_units(
    trace: ChargedTrace, choice: UnitChoice, *, regions: Sequence[Region], capacity_bytes: int
) -> tuple[UnitAnswer, pa.Table]:
    """Return the answer by whole units at a capacity, and the table of all units."""
    units = find_units(trace, choice, regions=regions)
    chain, count = find_placement(trace, units, capacity=capacity_bytes)
    savings_ns = np.rint(chain.savings_ps(units.bytes) / PS_PER_NS).astype(np.int64)
    chosen = chain.order[:count]
    is_placed = np.zeros(len(units), bool)
    is_placed[chosen] = True
    known = units.unit_of >= 0
    touched = np.bincount(units.unit_of[known], minlength=len(units))
    base_ps = int(chain.times_ps[0])
    elapsed_ps = int(chain.times_ps[np.searchsorted(chain.counts, count)])
    answer = UnitAnswer(
        unit=choice.kind,
        extent_bytes=choice.extent_bytes,
        is_default=choice.is_default,
        capacity_bytes=capacity_bytes,
        placed_count=count,
        unit_count=len(units),
        bytes=int(units.bytes[chosen].sum()),
        touched_bytes=int(touched[chosen].sum()) * BLOCK_BYTES,
        outside_bytes=int(np.count_nonzero(~known)) * BLOCK_BYTES,
        along_bytes=_along_blocks(units, is_placed) * BLOCK_BYTES,
        base_elapsed_ns=to_ns(base_ps),
        elapsed_ns=to_ns(elapsed_ps),
        gain_ratio=(base_ps - elapsed_ps) / base_ps if base_ps else 0.0,
        placed=_placed(units, chosen, savings_ns)[:SHOWN_UNITS],
        curve=_curve(units, chain),
        skipped_rows=units.skipped_rows,
    )
    rows = [units.kinds, units.names, units.devices, units.first_blocks, touched, units.bytes]
    arrays = [
        pa.array(column, field.type)
        for column, field in zip([*rows, savings_ns, is_placed], UNITS, strict=True)
    ]
    return answer, pa.Table.from_arrays(arrays, schema=UNITS)


def _along_blocks(units: Units, is_placed: NDArray[np.bool_]) -> int:
    """Return how many blocks are on the NVM only because they go along with a placed unit."""
    if units.taken_with is None:
        return 0
    placed = np.append(is_placed, False)
    return int(np.count_nonzero(placed[units.taken_with] & ~placed[units.unit_of]))


def no_units() -> pa.Table:
    """Return the table of an answer without units."""
    return UNITS.empty_table()


def _placed(units: Units, chosen: Integers, savings_ns: Integers) -> list[PlacedUnit]:
    """Return the placed units by falling saving, adjacent extents as one."""
    order = sorted(chosen.tolist(), key=lambda one: (units.devices[one], units.first_blocks[one]))
    found: list[PlacedUnit] = []
    firsts: list[int] = []
    end = (None, -1)
    for one in order:
        name, device, first = units.names[one], units.devices[one], int(units.first_blocks[one])
        size, saving = int(units.bytes[one]), int(savings_ns[one])
        if units.kinds[one] == EXTENT and end == (device, first):
            last = found[-1]
            last.bytes += size
            last.saving_ns += saving
            number = (first * BLOCK_BYTES) // size
            last.name = f"{device} extents {firsts[-1]} to {number}"
        else:
            found.append(PlacedUnit(name=name, device=device, bytes=size, saving_ns=saving))
            firsts.append(first * BLOCK_BYTES // size)
        end = (device, first + size // BLOCK_BYTES)
    return sorted(found, key=lambda one: -one.saving_ns)


def _curve(units: Units, chain: Chain) -> list[UnitPoint]:
    """Return some beginnings of the order, each with the least time up to its size."""
    sizes = np.append(0, units.bytes[chain.order].cumsum())[chain.counts]
    least = np.minimum.accumulate(chain.times_ps)
    base_ps = int(least[0])
    shown = distinct(
        [np.linspace(0, len(sizes) - 1, min(SHOWN_POINTS, len(sizes))).astype(np.int64)]
    )
    return [
        UnitPoint(
            capacity_bytes=int(sizes[one]),
            units=int(chain.counts[chain.times_ps[: one + 1].argmin()]),
            elapsed_ns=to_ns(int(least[one])),
            gain_ratio=(base_ps - int(least[one])) / base_ps if base_ps else 0.0,
        )
        for one in shown.tolist()
    ]


def headline(found: UnitAnswer, *, nvm: Profile, measure: str) -> str:
    """Return the sentence of the answer by units."""
    what = f"{found.unit}s" if found.unit != DIRECTORY else "directories"
    if found.unit == EXTENT:
        what += f" of {format_size(found.extent_bytes)}"
    given = f"With {format_size(found.capacity_bytes)} of {nvm.name} and only whole {what}"
    if not found.placed_count:
        return (
            f"{given}, leave everything on the base device: of {found.unit_count:,} none fits and"
            f" takes less than its {format_duration(found.base_elapsed_ns)}."
        )
    names = [ROLE_NAMES.get(one.name, one.name) for one in found.placed[:NAMED_UNITS]]
    more = ", ..." if len(found.placed) > NAMED_UNITS else ""
    along = (
        f" Assumed: {format_size(found.along_bytes)} of metadata and journal go along, by the files"
        " requested before them."
        if found.along_bytes
        else ""
    )
    return (
        f"{given}, place {found.placed_count:,} of {found.unit_count:,}"
        f" ({format_size(found.bytes)}: {', '.join(names)}{more}): {measure} falls by"
        f" {found.gain_ratio:.1%}, from {format_duration(found.base_elapsed_ns)} to"
        f" {format_duration(found.elapsed_ns)}.{along}"
    )


def with_units(
    lines: list[str], found: UnitAnswer, *, nvm: Profile, is_open: bool, pays: bool
) -> list[str]:
    """Return the headline with the units' sentence first.

    Where extents are the default because roles are not known, the reason is said, and sentences by
    role are left out where none pays.
    """
    measure = "mean response time" if is_open else "elapsed I/O time"
    first = headline(found, nvm=nvm, measure=measure)
    if not found.is_default:
        return [first, *lines]
    why = (
        "Most of the time is of requests without a role, so the answer is by extents; set roles"
        " with tracekit classify --role."
    )
    return [first, why, *(lines if pays else [])]
