"""All files of mounted file systems and where each lies, within limits of time and number."""

from __future__ import annotations

import os
import stat
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit._native.file_places import file_extents, file_status

MOST_FILES = 1_000_000
MOST_EXTENTS = 4_000_000
LOOKED_AT_EACH = 64
"""Files between two looks at the clock."""
_TREE_SHIFT = 36
"""Subvolumes have the same inodes: above this bit is whose it is."""
_OPENS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOATIME
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class FileSystem:
    """A mounted file system: the device with its blocks, and where it can be looked at."""

    device: str
    """Name of the kernel."""
    numbers: str
    """Its `major,minor`: what is mounted at the points later may be another one."""
    points: tuple[str, ...]
    trees: tuple[str, ...] = ()
    """`major,minor` that files at each point have, where each subvolume has its own."""


@dataclass
class Walk:
    """Files as they were at one time, by file system, with their extents in its sectors."""

    began_ns: int = field(default_factory=time.time_ns)
    """Unix time."""
    is_cut: bool = False
    """There are more files than are here."""
    absent: set[int] = field(default_factory=set)
    """File systems, by their places in the list, that were not mounted at one of their points."""
    folders: list[str] = field(default_factory=list)
    folder: array[int] = field(default_factory=lambda: array("i"))
    names: bytearray = field(default_factory=bytearray)
    name_ends: array[int] = field(default_factory=lambda: array("q", [0]))
    system: array[int] = field(default_factory=lambda: array("i"))
    inode: array[int] = field(default_factory=lambda: array("q"))
    born_ns: array[int] = field(default_factory=lambda: array("q"))
    """Unix time."""
    changed_ns: array[int] = field(default_factory=lambda: array("q"))
    """Unix time of the last change of content, name or place."""
    extents: array[int] = field(default_factory=lambda: array("q"))
    """File, place in it, first sector and sectors, one after the other."""

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self.inode)

    def paths(self) -> Any:
        """Return the paths of the files, as an Arrow array."""
        import pyarrow.compute as pc

        ends = np.asarray(self.name_ends)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(bytes(self.names))]
        names = pa.LargeStringArray.from_buffers(len(self), buffers[1], buffers[2])
        folders, slash = (
            pa.array(self.folders, pa.large_string()),
            pa.scalar("/", pa.large_string()),
        )
        return pc.binary_join_element_wise(
            folders.take(pa.array(np.asarray(self.folder, np.int32))), names, slash
        )

    def columns(self) -> tuple[Integers, ...]:
        """Return the extents: file, place in it, first sector, sectors."""
        return tuple(np.array(self.extents, np.int64).reshape(-1, 4).T)

    def saved(self) -> dict[str, Any]:
        """Return its fields as what can be written into a file."""
        fields = vars(self).items()
        return {
            name: bytes(value) if isinstance(value, array | bytearray) else value
            for name, value in fields
        }

    @classmethod
    def restored(cls, fields: Mapping[str, Any]) -> Walk:
        """Return what was saved."""
        found = cls()
        for name, empty in vars(found).items():
            value = fields[name]
            is_array = isinstance(empty, array)
            setattr(found, name, array(empty.typecode, value) if is_array else type(empty)(value))
        return found


def walk(systems: Sequence[FileSystem], *, limit_s: float, most_files: int = MOST_FILES) -> Walk:
    """Return the files of file systems; what cannot be looked at is left out.

    Neither access times nor contents are touched. After `limit_s` or `most_files` it is cut.
    """
    found = Walk()
    until_s = time.monotonic() + limit_s
    linked: set[tuple[int, int]] = set()
    for number, system in enumerate(systems):
        trees = system.trees or (system.numbers,) * len(system.points)
        for point, numbers in zip(system.points, trees, strict=True):
            if numbers_at(point) != numbers:
                found.absent.add(number)
                continue
            with suppress(OSError):
                _walk_point(found, number, point, linked=linked, until_s=until_s, most=most_files)
    return found


def numbers_at(point: str) -> str | None:
    """Return the `major,minor` that files at a point have; None where there is none."""
    try:
        device = os.stat(point).st_dev
    except OSError:
        return None
    return f"{os.major(device)},{os.minor(device)}"


def _walk_point(
    found: Walk, system: int, point: str, *, linked: set[tuple[int, int]], until_s: float, most: int
) -> None:
    device = os.stat(point).st_dev
    tree = 0 if os.major(device) else os.minor(device)
    waiting = [point.rstrip("/")]
    while waiting and not found.is_cut:
        path = waiting.pop()
        with suppress(OSError), _opened(path or "/", os.O_DIRECTORY) as folder:
            if os.fstat(folder).st_dev != device:
                continue  # another file system
            found.folders.append(_text(path))
            with os.scandir(folder) as entries:
                for count, entry in enumerate(entries):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{path}/{entry.name}")
                    elif entry.is_file(follow_symlinks=False):
                        with suppress(OSError), _opened(entry.name, folder=folder) as file:
                            _add(found, system, entry.name, file=file, tree=tree, linked=linked)
                    is_late = count % LOOKED_AT_EACH == 0 and time.monotonic() > until_s
                    if is_late or len(found) >= most or len(found.extents) >= 4 * MOST_EXTENTS:
                        found.is_cut = True
                        return


@contextmanager
def _opened(name: str, flags: int = 0, *, folder: int | None = None) -> Iterator[int]:
    number = os.open(name, _OPENS | flags, dir_fd=folder)
    try:
        yield number
    finally:
        os.close(number)


def _add(
    found: Walk, system: int, name: str, *, file: int, tree: int, linked: set[tuple[int, int]]
) -> None:
    """Add an open file, once if it has several names; one without a place on the device is not."""
    status = file_status(file)
    inode = status.inode + (tree << _TREE_SHIFT)
    key = (system, inode)
    if not stat.S_ISREG(status.mode) or not status.blocks or key in linked:
        return
    number = len(found)
    for logical, physical, sectors in file_extents(file):
        found.extents.extend((number, logical, physical, sectors))
    if status.links > 1:
        linked.add(key)
    found.folder.append(len(found.folders) - 1)
    found.names += _text(name).encode()
    found.name_ends.append(len(found.names))
    found.system.append(system)
    found.inode.append(inode)
    found.born_ns.append(status.born_ns)
    found.changed_ns.append(status.changed_ns)


def _text(name: str) -> str:
    """Return a name with bytes that are no UTF-8 as \\xNN."""
    return os.fsencode(name).decode(errors="backslashreplace")
