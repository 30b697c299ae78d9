"""Where the places of a mounted btrfs lie on its devices, by its chunk tree.

Files have addresses of the file system, which it maps in chunks to one device or several.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tracekit.stack.devices import Beside, Node, Piece
from tracekit.units import SECTOR_BYTES

KIND = "btrfs"
_SEARCH, _DEVICE = 0xC0709411, 0xD000941E
"""BTRFS_IOC_TREE_SEARCH_V2 and BTRFS_IOC_DEV_INFO of include/uapi/linux/btrfs.h."""
_KEY = struct.Struct("=7Q4I32xQ")
_HEAD = struct.Struct("=QQQII")
_CHUNK, _STRIPE = struct.Struct("=4Q3I2H"), struct.Struct("=QQ16x")
_CHUNK_TREE, _CHUNKS, _CHUNK_ITEM, _MOST = 3, 256, 228, (1 << 64) - 1
_RAID0, _RAID10, _PARITY = 1 << 3, 1 << 6, 1 << 7 | 1 << 8
_BUFFER_BYTES, _DEVICE_BYTES, _PATH_AT = 1 << 16, 4096, 3072


def file_system_node(numbers: str, point: str) -> Node:
    """Return a mounted btrfs as a device over those that it lies on; `numbers` are its own.

    Chunks with parity (RAID 5 and 6) have no pieces, only devices aside. Raise OSError
    where the kernel does not say, as to a user who is not root.
    """
    folder = os.open(point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        aside: dict[str, Beside] = {}
        pieces = [*_pieces(folder, aside)]
    finally:
        os.close(folder)
    end = max((one.first_sector + one.sectors for one in pieces), default=0)
    return Node(f"{KIND} {numbers}", numbers, end, KIND, pieces=pieces, aside=aside)


def with_lasting(before: Node, after: Node) -> Node:
    """Return the later node without chunks on sectors that another chunk had before."""
    known = set(before.pieces)
    old = [(piece.below, *_sectors_below(piece)) for piece in before.pieces]
    lasting = [piece for piece in after.pieces if piece in known or not _lies_on(piece, old)]
    return replace(after, pieces=lasting)


def _lies_on(piece: Piece, old: Sequence[tuple[str, int, int]]) -> bool:
    first, end = _sectors_below(piece)
    return any(name == piece.below and low < end and first < high for name, low, high in old)


def _sectors_below(piece: Piece) -> tuple[int, int]:
    found = piece.image(piece.first_sector, piece.first_sector + piece.sectors)
    return found or (piece.start_sector, piece.start_sector)


def _pieces(folder: int, aside: dict[str, Beside]) -> Iterator[Piece]:
    names: dict[int, str | None] = {}
    for first, content in _chunks(folder):
        length, _, stripe_bytes, kind, _, _, _, count, copies = _CHUNK.unpack_from(content)
        is_striped = kind & (_RAID0 | _RAID10)
        copies = copies if kind & _RAID10 else 1
        for number in range(count):
            device, start = _STRIPE.unpack_from(content, _CHUNK.size + number * _STRIPE.size)
            if device not in names:
                names[device] = _device_name(folder, device)
            below = names[device]
            if below is None:
                continue
            if kind & _PARITY:
                aside[below] = Beside.BLOCKS
                continue
            row = [one // SECTOR_BYTES for one in (first, length, start, stripe_bytes)]
            piece = Piece(row[0], row[1], below, row[2])
            if is_striped:
                members, place = count // copies, number // copies
                piece = replace(piece, chunk_sectors=row[3], members=members, place=place)
            yield piece


def _chunks(folder: int) -> Iterator[tuple[int, bytes]]:
    """Yield the first address of each chunk, and its item."""
    first = 0
    while True:
        request = bytearray(_KEY.size + _BUFFER_BYTES)
        places = (_CHUNK_TREE, _CHUNKS, _CHUNKS, first, _MOST, 0, _MOST)
        items = (_CHUNK_ITEM, _CHUNK_ITEM, (1 << 32) - 1, 0)
        _KEY.pack_into(request, 0, *places, *items, _BUFFER_BYTES)
        fcntl.ioctl(folder, _SEARCH, request)
        at, count = _KEY.size, _KEY.unpack_from(request)[9]
        for _ in range(count):
            _, _, first, _, size = _HEAD.unpack_from(request, at)
            at += _HEAD.size
            yield first, bytes(request[at : at + size])
            at += size
        if count == 0:
            return
        first += 1


def _device_name(folder: int, number: int) -> str | None:
    """Return the kernel's name of a device of the file system, None for one that is missing."""
    request = bytearray(_DEVICE_BYTES)
    struct.pack_into("=Q", request, 0, number)
    try:
        fcntl.ioctl(folder, _DEVICE, request)
    except OSError:
        return None
    path = bytes(request[_PATH_AT:]).partition(b"\0")[0]
    return os.path.basename(os.path.realpath(os.fsdecode(path))) if path else None
