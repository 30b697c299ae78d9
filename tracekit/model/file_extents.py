"""The table of files that a user gives: which extents of the traced devices each of them has."""

from __future__ import annotations

import csv
import io
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from tracekit.errors import InputError
from tracekit.metadata import Region
from tracekit.safe_open import read_given

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


def read_extents(
    file: Path, devices: Sequence[str], *, regions: Sequence[Region]
) -> tuple[list[FileExtent], int]:
    """Read the table of files; InputError names file and row of what is wrong.

    Return the extents on the trace's devices, and how many rows are on others.
    """
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
    if not found:
        raise InputError(
            f"{file}: no row is of a device of the trace ({', '.join(devices)})",
            hint=FILES_HINT,
        )
    _refuse_overlaps(file, found)
    return found, skipped


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


def _refuse_overlaps(file: Path, extents: Sequence[FileExtent]) -> None:
    ordered = sorted(extents, key=lambda one: (one.device, one.first_sector))
    for before, after in pairwise(ordered):
        if before.device == after.device and (
            before.first_sector + before.sectors > after.first_sector
        ):
            raise InputError(
                f"{file}, row {after.line}: {after.path} has sector {after.first_sector} of"
                f" {after.device}, which {before.path} has too (row {before.line})",
                hint="a unit cannot share blocks with another: leave one of them out",
            )


def by_directory(extents: Sequence[FileExtent]) -> list[FileExtent]:
    """Name the files by their directory, which is moved whole.

    A directory that has others of the table below it is no unit: its own files stay single units.
    """
    folders = {posixpath.dirname(one.path) for one in extents}
    above = {
        "/".join(parts[:depth]) or "/"
        for parts in (folder.split("/") for folder in folders)
        for depth in range(1, len(parts))
    }
    leaves = {folder for folder in folders if folder not in above and folder not in ("", "/")}
    return [
        replace(one, path=f"{posixpath.dirname(one.path)}/")
        if posixpath.dirname(one.path) in leaves
        else one
        for one in extents
    ]
