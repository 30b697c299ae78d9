"""The table of files that a user gives: which extents of the traced devices each of them has."""

from __future__ import annotations

import csv
import io
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tracekit.arrow import Integers, ints, read_whole, texts
from tracekit.errors import InputError
from tracekit.metadata import Region, TraceInfo
from tracekit.model.database_logs import folder_of, load_rules
from tracekit.safe_open import read_given
from tracekit.stack.file_map import check_map, given_table, read_map, with_trace_times
from tracekit.stack.offline_map import read_image
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES

BLOCK_SECTORS = BLOCK_BYTES // SECTOR_BYTES
FILE_COLUMNS = ("path", "device", "first_sector", "sectors")
FILES_HINT = (
    "each row has path, device, first_sector and sectors (of 512 bytes, from the start of the"
    " device or of the partition that it names), as filefrag -e -b512 prints them"
)


@dataclass(frozen=True)
class FileExtent:
    """A part of a file on a traced device, in sectors from the device's start."""

    path: str
    device: str
    first_sector: int
    sectors: int
    line: int


@dataclass(frozen=True)
class GivenFiles:
    """What a table of files has on the trace's devices."""

    extents: list[FileExtent]
    skipped_rows: int
    """Rows of other devices."""
    other_names: Mapping[str, Set[str]]
    """By path: further paths with the same extents, as hard links and clones have them."""

    def whole(self, *, in_directories: bool) -> tuple[list[FileExtent], int]:
        """Return the extents of files that move with all their names, and how many do not."""
        stays = {
            path
            for path, others in self.other_names.items()
            if not in_directories or len({posixpath.dirname(one) for one in (path, *others)}) > 1
        }
        return [one for one in self.extents if one.path not in stays], len(stays)


def read_extents(file: Path, devices: Sequence[str], *, regions: Sequence[Region]) -> GivenFiles:
    """Read the table of files; InputError names file and row of what is wrong."""
    starts = {name: (name, 0) for name in devices}
    for one in regions:
        if one.name and one.name not in starts and one.device in starts:
            starts[one.name] = (one.device, one.start_sector)
    found, skipped = [], 0
    for line, row in _rows(file):
        path, name = row.get("path"), row.get("device")
        first, sectors = (_whole(file, line, row, key) for key in FILE_COLUMNS[2:])
        if not isinstance(path, str) or not path or not isinstance(name, str):
            raise InputError(f"{file}, row {line}: path or device is missing", hint=FILES_HINT)
        if not path.startswith("/"):
            raise InputError(
                f"{file}, row {line}: {path!r} is no absolute path",
                hint="write each file's path from / on",
            )
        if sectors < 1 or first + sectors > 1 << 54:
            raise InputError(
                f"{file}, row {line}: {path}: no extent has {sectors} sectors from {first} on",
                hint=FILES_HINT,
            )
        name = os.path.basename(name)
        if name not in starts:
            skipped += 1
            continue
        device, start = starts[name]
        found.append(FileExtent(posixpath.normpath(path), device, first + start, sectors, line))
        _refuse_beyond(file, found[-1], regions)
    if not found:
        raise InputError(
            f"{file}: no row is of a device of the trace ({', '.join(devices)})",
            hint=FILES_HINT,
        )
    extents, others = _by_first_name(file, found)
    return GivenFiles(extents, skipped, others)


def _rows(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield rows with their numbers: lines of CSV, entries of JSON from 0."""
    try:
        text = read_given(file).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {error}", hint=FILES_HINT) from None
    if file.suffix == ".json":
        try:
            rows = msgspec.json.decode(text.encode(), type=list[dict[str, Any]])
        except msgspec.DecodeError as error:
            raise InputError(f"{file}: no JSON list of objects: {error}", hint=FILES_HINT) from None
        yield from enumerate(rows)
        return
    reader = csv.DictReader(io.StringIO(text, newline=""))
    missing = [name for name in FILE_COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        raise InputError(f"{file}, row 1: no column {', '.join(missing)}", hint=FILES_HINT)
    for row in reader:
        yield reader.line_num, row


def _whole(file: Path, line: int, row: Mapping[str, Any], key: str) -> int:
    value = row.get(key)
    text = "" if isinstance(value, bool) else str(value)
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InputError(
            f"{file}, row {line}: {key} is {value!r}, not a whole number", hint=FILES_HINT
        )
    return int(text)


def _refuse_beyond(file: Path, one: FileExtent, regions: Sequence[Region]) -> None:
    """Refuse an extent behind all that the layout has of its device, if that has a file system."""
    mine = [region for region in regions if region.device == one.device]
    end = max((region.start_sector + region.sectors for region in mine), default=0)
    if one.first_sector + one.sectors > end and any(region.role == "fs" for region in mine):
        raise InputError(
            f"{file}, row {one.line}: {one.path} ends at sector {one.first_sector + one.sectors} of"
            f" {one.device}, whose layout ends at {end}",
            hint=FILES_HINT,
        )


def _by_first_name(
    file: Path, extents: Sequence[FileExtent]
) -> tuple[list[FileExtent], dict[str, set[str]]]:
    """Return the extents, each once by its first path, and the other paths of it.

    InputError where two files share a part of an extent.
    """
    kept: list[FileExtent] = []
    others: dict[str, set[str]] = {}
    for one in sorted(extents, key=lambda one: (one.device, one.first_sector, one.line)):
        last = kept[-1] if kept and kept[-1].device == one.device else None
        if last is None or last.first_sector + last.sectors <= one.first_sector:
            kept.append(one)
        elif (last.first_sector, last.sectors) == (one.first_sector, one.sectors) and (
            last.path != one.path
        ):
            others.setdefault(last.path, set()).add(one.path)
        else:
            raise InputError(
                f"{file}, row {one.line}: {one.path} has sector {one.first_sector} of"
                f" {one.device}, which {last.path} has too (row {last.line})",
                hint="a unit cannot share blocks with another: leave one of them out",
            )
    return sorted(kept, key=lambda one: one.line), others


def read_file_map(
    file: Path, touched: Mapping[str, Integers], *, with_neighbours: bool
) -> tuple[list[FileExtent], set[str]]:
    """Return all extents of the files of which a block was touched, and all directories.

    `touched` are 4 KiB blocks by device, ascending. `with_neighbours` adds the other files of
    their directories.
    """
    table = read_whole(file)
    table = table.filter(table.column("path").is_valid())
    paths = table.column("path").combine_chunks().dictionary_encode()
    names = paths.dictionary.to_pylist()
    folder_of = [posixpath.dirname(name) for name in names]
    path = paths.indices.to_numpy(zero_copy_only=False)
    device, codes = texts(table.column("device").combine_chunks())
    first, sectors = (ints(table.column(key).combine_chunks()) for key in FILE_COLUMNS[2:])
    hit = np.zeros(len(names), bool)
    for number, name in enumerate(device):
        mine = np.flatnonzero(codes == number)
        edges = (first[mine] // BLOCK_SECTORS, -(-(first + sectors)[mine] // BLOCK_SECTORS))
        low, high = (np.searchsorted(touched.get(name, np.zeros(0)), edge) for edge in edges)
        hit[path[mine[high > low]]] = True
    if with_neighbours:
        near = {folder_of[one] for one in np.flatnonzero(hit).tolist()}
        hit |= np.array([folder in near for folder in folder_of], bool)
    return [
        FileExtent(names[path[row]], device[codes[row]], int(first[row]), int(sectors[row]), row)
        for row in np.flatnonzero(hit[path]).tolist()
    ], set(folder_of)


LOG_OF, LIES_IN = "log of ", " in "


def read_logs(file: Path) -> list[FileExtent]:
    """Return the extents of the logs of databases in the trace's map, by name and place of each."""
    table = read_whole(file)
    table = table.filter(table.column("log").is_valid())
    names = _log_names(table)
    columns = ("path", "device", *FILE_COLUMNS[2:])
    paths, *places = (table.column(key).to_pylist() for key in columns)
    rows = zip(paths, *places, range(len(paths)), strict=True)
    return [FileExtent(names[path], *row) for path, *row in rows]


def _log_names(table: Any) -> dict[str, str]:
    """Return the unit of each file that is a log: of one rule, and where known of one database."""
    rules = load_rules()
    logs = dict(zip(*(table.column(key).to_pylist() for key in ("path", "log")), strict=True))
    found: dict[tuple[str, str], list[str]] = {}
    for path, log in logs.items():
        if log is not None:
            found.setdefault((log, folder_of(path, rules.get(log))), []).append(path)
    names: dict[str, str] = {}
    for (log, _), paths in found.items():
        common = posixpath.commonpath({posixpath.dirname(path) for path in paths})
        names |= dict.fromkeys(paths, f"{LOG_OF}{log}{LIES_IN}{common}")
    return names


def log_of(unit: str) -> str:
    """Return the rule by which a unit is a log."""
    return unit.removeprefix(LOG_OF).partition(LIES_IN)[0]


def log_directories(file: Path, unit: str, *, mounts: Set[str]) -> tuple[list[str], list[str]]:
    """Return the directories with nothing but a unit of logs, and the unit's other files.

    A directory where a file system is mounted is left as it is.
    """
    table = read_whole(file).select(["path", "log"])
    table = table.filter(table.column("path").is_valid())
    logs = {path for path, name in _log_names(table).items() if name == unit}
    others = {*table.column("path").to_pylist()} - logs
    shared = {parent for path in others for parent in _above(path)}
    folders = {posixpath.dirname(path) for path in logs} - shared - mounts
    return sorted(folders), sorted(one for one in logs if posixpath.dirname(one) not in folders)


def _above(path: str) -> Iterator[str]:
    """Yield the directories of a path, the lowest first."""
    while path not in ("", "/"):
        path = posixpath.dirname(path)
        yield path


def by_directory(
    extents: Sequence[FileExtent],
    folders: Set[str] = frozenset(),
    *,
    mounts: Set[str] = frozenset(),
) -> list[FileExtent]:
    """Name the files by their directory, which is moved whole.

    A directory that has others of the table, or of `folders`, below it, or that is one of `mounts`,
    is no unit: its own files stay single units.
    """
    folders = folders | {posixpath.dirname(one.path) for one in extents}
    above = {
        "/".join(parts[:depth]) or "/"
        for parts in (folder.split("/") for folder in folders)
        for depth in range(1, len(parts))
    }
    leaves = {
        folder for folder in folders if folder not in above and folder not in ("", "/", *mounts)
    }
    return [
        replace(one, path=f"{posixpath.dirname(one.path)}/")
        if posixpath.dirname(one.path) in leaves
        else one
        for one in extents
    ]


Piece = tuple[str, int, int, str, int]
"""Device, first sector, sectors, path and place in the file."""


def given_map(file: Path, info: TraceInfo) -> Any:
    """Return the table of file extents in a file; InputError says what is wrong with it."""
    devices = [one.device for one in info.devices]
    if file.suffix == ".parquet":
        return with_trace_times(read_map(file, info.devices), info.clock.wall_ns)
    if file.suffix in (".csv", ".json"):
        given = read_extents(file, devices, regions=info.layout)
        pieces = list(_in_order(given.extents))
    else:
        pieces = alone(read_image(file, info.layout))
    if not pieces:
        raise InputError(
            f"{file}: has no file",
            hint="what is mounted must be frozen first (fsfreeze): its log has what is new",
        )
    table = given_table(pieces)
    check_map(table, str(file), devices=info.devices)
    return table


def _in_order(extents: Sequence[FileExtent]) -> Iterator[Piece]:
    """Yield the rows of a table; those of a file follow each other in it."""
    reached: dict[str, int] = {}
    for one in extents:
        place = reached.get(one.path, 0)
        reached[one.path] = place + one.sectors
        yield one.device, one.first_sector, one.sectors, one.path, place


def alone(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces that no other file has, too, as clones of a file do."""
    ordered = sorted(pieces)
    shared: set[int] = set()
    reach, last = ("", 0), 0
    for number, (device, first, sectors, _, _) in enumerate(ordered):
        if reach[0] == device and first < reach[1]:
            shared |= {last, number}
        if reach[0] != device or first + sectors > reach[1]:
            reach, last = (device, first + sectors), number
    return [one for number, one in enumerate(ordered) if number not in shared]
