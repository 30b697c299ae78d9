"""What a device holds, by its first sectors: file systems, journals, swap and members of stacks."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tracekit.stack.zfs import PoolPart, read_label
from tracekit.units import SECTOR_BYTES

ZFS = "zfs_member"
MEMBERS = {
    "LVM2_member": "LVM physical volume",
    "crypto_LUKS": "LUKS volume",
    "linux_raid_member": "member of a RAID",
    "bcache": "member of a bcache",
    ZFS: "member of a ZFS pool",
}
"""Kinds, as blkid names them, that hold other devices."""


@dataclass(frozen=True)
class Signature:
    """What a device holds."""

    kind: str
    """ext4, jbd (an external journal of it), swap, xfs, xfs_external_log, btrfs, f2fs, or one of
    MEMBERS; ext2 and ext3 count as ext4."""
    uuid: str
    journal_uuid: str | None = None
    """UUID of the external journal that an ext4 uses."""
    journal_extents: tuple[tuple[int, int], ...] = ()
    """First sector and number of sectors of each piece of an internal journal or log."""
    data_offset: int = 0
    """Sector from which a bcache's backing device holds data."""
    pool_part: PoolPart | None = None
    """What it is of a ZFS pool."""


_EXT_AT = 1024
_EXT_BYTES = 1024
_EXT_MAGIC = b"\x53\xef"
_HAS_JOURNAL = 0x4
_IS_JOURNAL_DEVICE = 0x8
_BACKUP_IS_INODE = 1
_EXTENT_MAGIC = 0xF30A
_EXTENT_LONGEST = 32768
_SWAP_AT = 4086
_SWAP_MAGIC = b"SWAPSPACE2"
_SWAP_UUID_AT = 1036
_BTRFS_AT = 1 << 16
_READ_BYTES = 128 << 10  # with the list of names and values of ZFS


def read_signature(device: Path) -> Signature | None:
    """Return what the device holds, or None for another kind."""
    with device.open("rb") as file:
        first = file.read(_READ_BYTES)
        for kind in _KINDS:
            found = kind(file, first)
            if found is not None:
                return found
    return None


def _swap(_file: BinaryIO, first: bytes) -> Signature | None:
    if not first.startswith(_SWAP_MAGIC, _SWAP_AT):
        return None
    return Signature("swap", _uuid(first, _SWAP_UUID_AT))


def _ext4(file: BinaryIO, first: bytes) -> Signature | None:
    super_block = first[_EXT_AT : _EXT_AT + _EXT_BYTES]
    if len(super_block) < _EXT_BYTES or super_block[0x38:0x3A] != _EXT_MAGIC:
        return None
    own = _uuid(super_block, 0x68)
    if _u32(super_block, 0x60) & _IS_JOURNAL_DEVICE:
        return Signature("jbd", own)
    if not _u32(super_block, 0x5C) & _HAS_JOURNAL:
        return Signature("ext4", own)
    if any(super_block[0xD0:0xE0]):
        return Signature("ext4", own, journal_uuid=_uuid(super_block, 0xD0))
    extents: list[tuple[int, int]] = []
    if super_block[0xFD] == _BACKUP_IS_INODE:
        # The super block keeps a copy of the journal inode's block map.
        block_bytes = 1024 << _u32(super_block, 0x18)
        extents = _leaf_extents(file, super_block[0x10C : 0x10C + 60], block_bytes)
    return Signature("ext4", own, journal_extents=tuple(extents))


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


def _xfs(_file: BinaryIO, first: bytes) -> Signature | None:
    if first[:4] == b"\xfe\xed\xba\xbe":
        return Signature("xfs_external_log", _uuid(first, 304))
    if first[:4] != b"XFSB" or len(first) < SECTOR_BYTES:
        return None
    block_bytes, group_blocks, log_blocks = (_be(first, at, 4) for at in (4, 84, 96))
    log_start = _be(first, 48, 8)
    extents: tuple[tuple[int, int], ...] = ()
    if log_start:
        # A block's number is that of its allocation group, shifted, and its place in it.
        group, block = divmod(log_start, 1 << first[124])
        scale = block_bytes // SECTOR_BYTES
        extents = (((group * group_blocks + block) * scale, log_blocks * scale),)
    return Signature("xfs", _uuid(first, 32), journal_extents=extents)


def _btrfs(_file: BinaryIO, first: bytes) -> Signature | None:
    is_it = first.startswith(b"_BHRfS_M", _BTRFS_AT + 64)
    return Signature("btrfs", _uuid(first, _BTRFS_AT + 32)) if is_it else None


def _f2fs(_file: BinaryIO, first: bytes) -> Signature | None:
    is_it = first.startswith(b"\x10\x20\xf5\xf2", 1024)
    return Signature("f2fs", _uuid(first, 1024 + 108)) if is_it else None


def _zfs(_file: BinaryIO, first: bytes) -> Signature | None:
    label = read_label(first)
    if label is None:
        return None
    return Signature(ZFS, str(label.guid), pool_part=PoolPart(label.pool or "?", label.kind))


def _member(_file: BinaryIO, first: bytes) -> Signature | None:
    for at in range(0, 4 * SECTOR_BYTES, SECTOR_BYTES):
        if first.startswith(b"LABELONE", at) and first.startswith(b"LVM2 001", at + 24):
            return Signature("LVM2_member", first[at + 32 : at + 64].decode("latin-1"))
    if first.startswith(b"LUKS\xba\xbe"):
        return Signature("crypto_LUKS", first[168:208].split(b"\0")[0].decode("latin-1"))
    for at in (4096, 0):
        if first.startswith(b"\xfc\x4e\x2b\xa9", at):
            return Signature("linux_raid_member", _uuid(first, at + 16))
    if first.startswith(_BCACHE_MAGIC, 4096 + 24):
        version, data_offset = (struct.unpack_from("<Q", first, 4096 + at)[0] for at in (16, 184))
        # Only the fourth version of the super block of a backing device says where data begins.
        offset = {_BCACHE_BACKING: _BCACHE_OFFSET, _BCACHE_MOVED: data_offset}.get(version, 0)
        return Signature("bcache", _uuid(first, 4096 + 40), data_offset=offset)
    return None


_BCACHE_MAGIC = bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")
_BCACHE_BACKING, _BCACHE_MOVED, _BCACHE_OFFSET = 1, 4, 16
_KINDS: tuple[Callable[[BinaryIO, bytes], Signature | None], ...] = (
    *(_swap, _member, _ext4, _xfs, _btrfs, _f2fs, _zfs),
)


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _be(data: bytes, at: int, length: int) -> int:
    return int.from_bytes(data[at : at + length], "big")


def _uuid(data: bytes, at: int) -> str:
    return str(uuid.UUID(bytes=data[at : at + 16]))
