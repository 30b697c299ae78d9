"""Where a file lies on the device of its file system (FIEMAP), and when it was made (statx)."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from dataclasses import dataclass

from tracekit.units import SECTOR_BYTES

_FIEMAP = 0xC020660B
"""FS_IOC_FIEMAP of include/uapi/linux/fs.h."""
_HEAD = struct.Struct("=QQIIII")
_EXTENT = struct.Struct("=QQQ16xI12x")
_FEW_EXTENTS, _MOST_EXTENTS = 32, 1000
_SYNC, _LAST = 1, 1
_NOT_PLACED = 0x2 | 0x4 | 0x8 | 0x100 | 0x200 | 0x400
"""Not known, not written yet, encoded, or beside metadata within a sector."""

_COUNTS = struct.Struct("=16xI8xHxxQ8xQ")
"""Links, mode, inode and blocks."""
_TIME = struct.Struct("=qI")
_BYTES, _BORN_AT, _CHANGED_AT = 256, 80, 96
_EMPTY_PATH, _ALL = 0x1000, 0xFFF
_libc = ctypes.CDLL(None, use_errno=True)


def file_extents(file: int, *, syncs: bool = False) -> list[tuple[int, int, int]]:
    """Return the pieces of an open file in its order: place in it, on the device, and length.

    All are in sectors. `syncs` writes first what has no place yet. Raise OSError for a file system
    that does not know.
    """
    rows: list[tuple[int, int, int]] = []
    start, most = 0, _FEW_EXTENTS
    while True:
        request = bytearray(_HEAD.size + most * _EXTENT.size)
        _HEAD.pack_into(request, 0, start, (1 << 63) - 1 - start, _SYNC * syncs, 0, most, 0)
        fcntl.ioctl(file, _FIEMAP, request)
        mapped = _HEAD.unpack_from(request)[3]
        for number in range(mapped):
            at = _HEAD.size + number * _EXTENT.size
            logical, physical, length, flags = _EXTENT.unpack_from(request, at)
            if not flags & _NOT_PLACED:
                sizes = (logical, physical, length)
                rows.append(tuple(size // SECTOR_BYTES for size in sizes))
            start = logical + length
        if mapped == 0 or flags & _LAST:
            return rows
        most = _MOST_EXTENTS


@dataclass(frozen=True)
class FileStatus:
    """A file; times are Unix time in ns."""

    links: int
    mode: int
    inode: int
    blocks: int
    """Of 512 bytes, that it takes."""
    born_ns: int
    """0 where the file system does not know."""
    changed_ns: int


def file_status(file: int) -> FileStatus:
    """Return the status of an open file; raise OSError as the system has it."""
    buffer = ctypes.create_string_buffer(_BYTES)
    if _libc.statx(file, b"", _EMPTY_PATH, _ALL, buffer):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    born, changed = (_TIME.unpack_from(buffer, at) for at in (_BORN_AT, _CHANGED_AT))
    times = (seconds * 10**9 + ns for seconds, ns in (born, changed))
    return FileStatus(*_COUNTS.unpack_from(buffer), *times)
