"""Which file has which sectors of a disk, from what was seen before and after a capture.

A place is given a name only where nothing else can have had it meanwhile, as far as is seen: what
was deleted, moved, renamed or shared is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit.arrow import int64_column, ints, read_whole, text_column, texts
from tracekit.errors import InputError
from tracekit.metadata import Device, check_table
from tracekit.stack.devices import Piece, Stack
from tracekit.stack.file_walk import FileSystem, Integers, Walk
from tracekit.tables import FILE_EXTENTS, FILE_STATES, NAMED_STATES

MAP_NAME = "file_extents.parquet"
CLOCK_STEP_NS = 10_000_000
"""A file system's times are those of the kernel's last tick, or before."""
STATES = tuple(FILE_STATES)
_ROW = np.dtype(
    [(name, np.int64) for name in ("first", "end", "file", "place", "from_ns", "state")]
)
Rows = NDArray[Any]
NEVER = -1
HINT = "leave it out, or make it anew: it is written at the end of a capture"


@dataclass(frozen=True)
class _Cover:
    """Extents of one file system at one time, by their places."""

    file: Integers
    place: Integers
    first: Integers
    end: Integers

    @classmethod
    def of(cls, walk: Walk, system: int) -> _Cover:
        """Take a walk's extents on a file system."""
        file, place, first, sectors = walk.columns()
        mine = np.asarray(walk.system, np.int64)[file] == system
        order = np.flatnonzero(mine)[np.argsort(first[mine], kind="stable")]
        return cls(file[order], place[order], first[order], (first + sectors)[order])

    def owners(self, starts: Integers) -> tuple[Integers, NDArray[np.bool_]]:
        """Return the extent in which each place lies, -1 for none, and where it is in several."""
        if not len(self.first):
            return np.full(len(starts), -1), np.zeros(len(starts), bool)
        at = np.searchsorted(self.first, starts, side="right") - 1
        count = at + 1 - np.searchsorted(np.sort(self.end), starts, side="right")
        has = (at >= 0) & (self.end[at] > starts)
        # Within an extent that began before another one ended, which only shared places have.
        return np.where(has & (count == 1), at, -1), (count > 1) | ((count == 1) & ~has)


def join_walks(before: Walk | None, after: Walk, *, systems: Sequence[FileSystem]) -> list[Rows]:
    """Return, of each file system, the pieces that files have or had, in order.

    `file` is the number of a file of `after`, of which only named pieces have one.
    """
    return [_joined(before, after, number) for number in range(len(systems))]


def _joined(before: Walk | None, after: Walk, system: int) -> Rows:
    old = _Cover.of(before if before is not None else Walk(), system)
    new = _Cover.of(after, system)
    edges = np.unique(np.concatenate([old.first, old.end, new.first, new.end]))
    starts, ends = edges[:-1], edges[1:]
    had, had_shared = old.owners(starts)
    has, has_shared = new.owners(starts)
    rows = np.zeros(len(starts), _ROW)
    rows["first"], rows["end"], rows["from_ns"] = starts, ends, NEVER
    there = has >= 0
    rows["file"] = np.where(there, new.file[has], -1) if len(new.file) else -1
    if len(new.file):
        rows["place"] = np.where(there, new.place[has] + starts - new.first[has], 0)
    past = np.where(had >= 0, old.file[had], -1) if len(old.file) else np.full(len(had), -1)
    names = _states(before, after, rows["file"], past=past)
    if after.is_cut or system in after.absent:
        names[names == STATES.index("deleted")] = STATES.index("unseen")
    names[had_shared | has_shared] = STATES.index("shared")
    rows["state"] = names
    is_new = there & (names == STATES.index("new"))
    rows["from_ns"][is_new] = np.asarray(after.born_ns)[rows["file"][is_new]]
    is_named = np.isin(names, [STATES.index(one) for one in NAMED_STATES])
    rows["file"][~is_named], rows["place"][~is_named] = -1, 0
    return _merged(rows[(had >= 0) | there | had_shared | has_shared])


def _states(before: Walk | None, after: Walk, file: Integers, *, past: Integers) -> Integers:
    """Return the state of pieces by the files that have them now and had them before, -1: none."""
    began_ns = (before or after).began_ns - CLOCK_STEP_NS
    changed, born = (np.append(one, 0) for one in (after.changed_ns, after.born_ns))
    now_of, renamed = _followed(before, after)
    seen = np.zeros(len(after) + 1, bool)
    seen[now_of[now_of >= 0]] = True
    now = np.append(now_of, -1)[past]
    is_known = before is not None and not before.is_cut
    names = np.full(len(file), STATES.index("changed"))

    def set_where(name: str, where: Any) -> None:
        names[where] = STATES.index(name)

    has, had = file >= 0, past >= 0
    set_where("grown", has & ~had & seen[file] & is_known)
    set_where("new", has & ~had & (born[file] >= began_ns))
    set_where("same", has & ~had & (changed[file] < began_ns))
    set_where("reused", has & had & (now != file))
    set_where("same", has & had & (now == file))
    set_where("renamed", has & (now == file) & np.append(renamed, False)[past])
    set_where("moved", ~has & had)
    set_where("deleted", ~has & had & (now < 0))
    return names


def _followed(before: Walk | None, after: Walk) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the file of `after` that each of `before` is, -1 for none, and if its name changed."""
    import pyarrow.compute as pc

    if before is None or not len(before) or not len(after):
        count = len(before) if before is not None else 0
        return np.full(count, -1), np.zeros(count, bool)
    keys = [
        np.asarray(one.inode, np.int64) + (np.asarray(one.system, np.int64) << 56)
        for one in (before, after)
    ]
    order = np.argsort(keys[1], kind="stable")
    at = order[np.minimum(np.searchsorted(keys[1][order], keys[0]), len(order) - 1)]
    is_it = (keys[1][at] == keys[0]) & (np.asarray(after.born_ns)[at] == before.born_ns)
    is_named_so = pc.equal(before.paths(), after.paths().take(pa.array(at)))
    return np.where(is_it, at, -1), is_it & ~np.asarray(is_named_so)


def _merged(rows: Rows) -> Rows:
    """Return the rows with neighbours as one that differ in nothing."""
    if not len(rows):
        return rows
    one, next_ = rows[:-1], rows[1:]
    goes_on = one["end"] == next_["first"]
    for name in ("file", "from_ns", "state"):
        goes_on &= one[name] == next_[name]
    goes_on &= (next_["file"] < 0) | (
        next_["place"] - one["place"] == next_["first"] - one["first"]
    )
    begins = np.flatnonzero(np.append(True, ~goes_on))
    kept: Rows = rows[begins].copy()
    kept["end"] = rows["end"][np.append(begins[1:], len(rows)) - 1]
    return kept


def lowered(stack: Stack, name: str, *, rows: Rows) -> Iterator[tuple[str, Rows]]:
    """Yield pieces of a device on itself and on each device below, as far as that is known."""
    yield name, rows
    node = stack.nodes.get(name)
    for piece in node.pieces if node else ():
        inside = _inside(rows, piece.first_sector, piece.first_sector + piece.sectors)
        if (
            len(inside)
            and piece.copies == 1
            and (not piece.chunk_sectors or piece.place is not None)
        ):
            yield from lowered(stack, piece.below, rows=_below(inside, piece))


def _inside(rows: Rows, first: int, end: int) -> Rows:
    """Return the parts of ordered rows between two sectors."""
    low = np.searchsorted(rows["end"], first, side="right")
    kept: Rows = rows[low : np.searchsorted(rows["first"], end)].copy()
    return _cut(kept, np.maximum(kept["first"], first), np.minimum(kept["end"], end))


def _cut(rows: Rows, first: Integers, end: Integers) -> Rows:
    rows["place"] += np.where(rows["file"] >= 0, first - rows["first"], 0)
    rows["first"], rows["end"] = first, end
    return rows


def _below(rows: Rows, piece: Piece) -> Rows:
    """Return where rows within a piece lie on the device below."""
    chunk, start = piece.chunk_sectors, piece.first_sector
    if not chunk:
        rows["first"] += piece.start_sector - start
        rows["end"] += piece.start_sector - start
        return rows
    low, high = (rows["first"] - start) // chunk, (rows["end"] - start - 1) // chunk
    count = high - low + 1
    number = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    number += np.repeat(low, count)
    parts = np.repeat(rows, count)
    edge = start + number * chunk
    parts = _cut(parts, np.maximum(parts["first"], edge), np.minimum(parts["end"], edge + chunk))
    mine = number % piece.members == piece.place
    kept: Rows = parts[mine]
    shift = (piece.start_sector + number // piece.members * chunk - edge)[mine]
    kept["first"] += shift
    kept["end"] += shift
    return kept


def table_of(
    stack: Stack,
    systems: Sequence[FileSystem],
    *,
    rows: Sequence[Rows],
    paths: Any,
    disks: Sequence[str],
) -> Any:
    """Return the table of the pieces on disks; `paths` are those of the numbers in `rows`."""
    found: dict[str, list[Rows]] = {disk: [] for disk in disks}
    for system, of_system in zip(systems, rows, strict=True):
        for name, lower in lowered(stack, system.device, rows=of_system):
            if name in found:
                found[name].append(lower)
    parts = [np.concatenate(found[disk]) if found[disk] else np.zeros(0, _ROW) for disk in disks]
    device = np.repeat(np.arange(len(disks)), [len(part) for part in parts])
    row = np.concatenate(parts)
    order = np.lexsort([row["first"], device])
    return _table(row[order], device[order], disks=list(disks), paths=paths)


def _table(row: Rows, device: Integers, *, disks: list[str], paths: Any) -> Any:
    no_file, always = row["file"] < 0, row["from_ns"] == NEVER
    columns = {
        "device": text_column(device, disks),
        "first_sector": int64_column(row["first"]),
        "sectors": int64_column(row["end"] - row["first"]),
        "path": paths.take(pa.array(row["file"], mask=no_file)).cast(pa.string()),
        "file_sector": pa.array(row["place"], mask=no_file),
        "from_ns": pa.array(row["from_ns"], mask=always),
        "state": text_column(row["state"], list(STATES)),
        "log": pa.nulls(len(row), FILE_EXTENTS.field("log").type),
    }
    return pa.Table.from_pydict(columns, schema=FILE_EXTENTS)


def given_table(pieces: Sequence[tuple[str, int, int, str, int]]) -> Any:
    """Return the table of (device, first sector, sectors, path, place in the file)."""
    paths = {path: number for number, path in enumerate(dict.fromkeys(one[3] for one in pieces))}
    disks = list(dict.fromkeys(one[0] for one in pieces))
    row = np.zeros(len(pieces), _ROW)
    state = STATES.index("given")
    for number, (_, first, sectors, path, place) in enumerate(pieces):
        row[number] = (first, first + sectors, paths[path], place, NEVER, state)
    device = np.array([disks.index(one[0]) for one in pieces], np.int64)
    order = np.lexsort([row["first"], device])
    return _table(row[order], device[order], disks=disks, paths=pa.array(list(paths), pa.string()))


def read_map(file: Path, devices: Sequence[Device]) -> Any:
    """Read the table of a capture; InputError where it is damaged or of other devices."""
    check_table(file, FILE_EXTENTS, hint=HINT)
    table = read_whole(file).cast(FILE_EXTENTS)
    check_map(table, str(file), devices=devices)
    return table


def check_map(table: Any, name: str, *, devices: Sequence[Device]) -> None:
    """Raise InputError for a map of other devices, or one whose pieces cannot be."""
    known, codes = texts(table.column("device").combine_chunks())
    names = [one.device for one in devices]
    if len(codes) and not {*known} & {*names}:
        raise InputError(
            f"{name}: a map of {', '.join(known)}, and the trace is of {', '.join(names)}",
            hint=HINT,
        )
    first, sectors = (ints(table.column(one).combine_chunks()) for one in FILE_EXTENTS.names[1:3])
    bad = np.flatnonzero((first < 0) | (sectors < 1))
    ends = {one.device: one.size_sectors for one in devices if one.size_sectors}
    most = np.array([*(ends.get(one, 1 << 54) for one in known), 0], np.int64)[codes]
    beyond = np.flatnonzero(first + sectors > most)
    overlaps = 1 + np.flatnonzero(
        (codes[1:] == codes[:-1]) & (first[1:] < first[:-1] + sectors[:-1])
    )
    state, found = texts(table.column("state").combine_chunks())
    is_named = np.array([*(one in NAMED_STATES for one in state), False])[found]
    no_path = np.flatnonzero(is_named == np.asarray(table.column("path").is_null()))
    for rows, what in (
        (bad, "no piece of a device"),
        (beyond, "behind the end of the device: a map of another one"),
        (overlaps, "overlaps the row before, or is not in order"),
        (no_path, "a path without a file that is known, or the reverse"),
    ):
        if len(rows):
            at = int(rows[0])
            raise InputError(
                f"{name}, row {at}: {what} (sectors {first[at]} to {first[at] + sectors[at] - 1})",
                hint=HINT,
            )


def with_trace_times(table: Any, wall_ns: int | None) -> Any:
    """Return a capture's table with times from the trace's start, by the start's Unix time.

    Without it what is known only from some time on is not known.
    """
    import pyarrow.compute as pc

    from_ns = table.column("from_ns")
    if wall_ns is not None:
        new = pc.subtract(from_ns, wall_ns)
        return table.set_column(
            table.schema.get_field_index("from_ns"), FILE_EXTENTS.field("from_ns"), new
        )
    return table.filter(from_ns.is_null())
