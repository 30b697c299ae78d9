"""Where a file lies on the device of its file system (FIEMAP)."""

from __future__ import annotations

import fcntl
import struct

from tracekit.units import SECTOR_BYTES

_FIEMAP = 0xC020660B
"""FS_IOC_FIEMAP of include/uapi/linux/fs.h."""
_HEAD = struct.Struct("=QQIIII")
_EXTENT = struct.Struct("=QQQ16xI12x")
_MOST_EXTENTS = 1000
_SYNC, _LAST, _NOT_PLACED = 1, 1, 2 | 4 | 8


def file_extents(file: int, *, syncs: bool = False) -> list[tuple[int, int, int]]:
    """Return the pieces of an open file in its order: place in it, on the device, and length.

    All are in sectors. `syncs` writes first what has no place yet. Raise OSError for a file system
    that does not know.
    """
    rows: list[tuple[int, int, int]] = []
    start = 0
    while True:
        request = bytearray(_HEAD.size + _MOST_EXTENTS * _EXTENT.size)
        _HEAD.pack_into(
            request, 0, start, (1 << 63) - 1 - start, _SYNC * syncs, 0, _MOST_EXTENTS, 0
        )
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
