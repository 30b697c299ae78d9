"""What lies on a partition, read from its first blocks: ext4, an ext4 journal, or swap.

Layouts: Linux `Documentation/filesystems/ext4/` (super block, inode's extent tree) and the swap
header of `mkswap`. Reading them directly needs no program and no mount.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_EXT_AT = 1024
_EXT_BYTES = 1024
_EXT_MAGIC = 0xEF53
_HAS_JOURNAL = 0x4
_IS_JOURNAL_DEVICE = 0x8
_BACKUP_IS_INODE = 1
_EXTENT_MAGIC = 0xF30A
_EXTENT_LONGEST = 32768
_SWAP_AT = 4086
_SWAP_MAGIC = b"SWAPSPACE2"
_SWAP_UUID_AT = 1036
SECTOR_BYTES = 512


@dataclass(frozen=True)
class Signature:
    """What a partition holds."""

    kind: str
    """ext4, jbd (an external journal) or swap; ext2 and ext3 count as ext4."""
    uuid: str
    journal_uuid: str | None = None
    """UUID of the external journal that an ext4 uses."""
    journal_extents: tuple[tuple[int, int], ...] = ()
    """First sector and number of sectors of each piece of an internal journal."""


def read_signature(device: Path) -> Signature | None:
    """Return what the partition holds, or None when it is none of the known kinds."""
    with device.open("rb") as file:
        first = file.read(_SWAP_AT + len(_SWAP_MAGIC))
        super_block = first[_EXT_AT : _EXT_AT + _EXT_BYTES]
        if first[_SWAP_AT:] == _SWAP_MAGIC:
            return Signature("swap", _uuid(first, _SWAP_UUID_AT))
        if len(super_block) == _EXT_BYTES and _u16(super_block, 0x38) == _EXT_MAGIC:
            return _read_ext(file, super_block)
    return None


def _read_ext(file: BinaryIO, super_block: bytes) -> Signature:
    own = _uuid(super_block, 0x68)
    if _u32(super_block, 0x60) & _IS_JOURNAL_DEVICE:
        return Signature("jbd", own)
    if not _u32(super_block, 0x5C) & _HAS_JOURNAL:
        return Signature("ext4", own)
    if any(super_block[0xD0:0xE0]):
        return Signature("ext4", own, journal_uuid=_uuid(super_block, 0xD0))
    block_bytes = 1024 << _u32(super_block, 0x18)
    extents: tuple[tuple[int, int], ...] = ()
    if super_block[0xFD] == _BACKUP_IS_INODE:
        # The super block keeps a copy of the journal inode's block map.
        extents = tuple(_leaf_extents(file, super_block[0x10C : 0x10C + 60], block_bytes))
    return Signature("ext4", own, journal_extents=extents)


def _leaf_extents(file: BinaryIO, node: bytes, block_bytes: int) -> list[tuple[int, int]]:
    """Return the pieces below an extent tree node as first sector and number of sectors."""
    magic, entries, _, depth = struct.unpack_from("<HHHH", node)
    if magic != _EXTENT_MAGIC:
        return []
    sectors = block_bytes // SECTOR_BYTES
    found = []
    for at in range(12, 12 + 12 * entries, 12):
        if depth == 0:
            length, high, low = struct.unpack_from("<HHI", node, at + 4)
            blocks = length if length <= _EXTENT_LONGEST else length - _EXTENT_LONGEST
            found.append(((high << 32 | low) * sectors, blocks * sectors))
        else:
            low, high = struct.unpack_from("<IH", node, at + 4)
            file.seek((high << 32 | low) * block_bytes)
            found += _leaf_extents(file, file.read(block_bytes), block_bytes)
    return found


def _u16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _uuid(data: bytes, at: int) -> str:
    return str(uuid.UUID(bytes=data[at : at + 16]))
