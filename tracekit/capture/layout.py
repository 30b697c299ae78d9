"""What is on the traced disk: its partitions and their roles, each with the evidence for it."""

from __future__ import annotations

import os
import platform
import struct
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tracekit.capture.tracefs import read_setting
from tracekit.errors import UsageError
from tracekit.units import SECTOR_BYTES

SYS_DEV = Path("/sys/dev/block")


@dataclass(frozen=True)
class Mount:
    """A mounted file system."""

    device: str
    """Numbers `major,minor`."""
    point: str
    filesystem: str
    source: str


def read_mounts(table: Path = Path("/proc/self/mountinfo")) -> list[Mount]:
    """Return what is mounted, in the order of mounting."""
    mounts = []
    for line in table.read_text().splitlines():
        fields = line.split(" ")
        filesystem, source = fields[fields.index("-") + 1 :][:2]
        device, point = fields[2].replace(":", ","), _unescaped(fields[4])
        mounts.append(Mount(device, point, filesystem, _unescaped(source)))
    return mounts


def by_device(mounts: list[Mount]) -> dict[str, Mount]:
    """Return the first mount of each block device; bind mounts come later."""
    return {mount.device: mount for mount in reversed(mounts)}


def active_swaps() -> dict[str, str]:
    """Return the name of each device in use as swap, and the path that swapon was given."""
    lines = Path("/proc/swaps").read_text().splitlines()[1:]
    paths = [_unescaped(line.split()[0]) for line in lines]
    return {Path(path).resolve().name: path for path in paths}


def disks_below(path: Path, mounts: list[Mount]) -> set[str]:
    """Return the names of all disks that a file at `path` ends up on.

    Partitions, stacked devices (dm, md) and loop devices are followed down; a file system without
    a device of its own (btrfs, overlay) is followed by the source in the mount table if it is one.
    """
    number = os.stat(path).st_dev
    numbers = f"{os.major(number)},{os.minor(number)}"
    if os.major(number) == 0:
        sources = [Path(mount.source) for mount in mounts if mount.device == numbers]
        found = [source.stat().st_rdev for source in sources if source.is_block_device()]
        if not found:
            return set()
        numbers = f"{os.major(found[0])},{os.minor(found[0])}"
    folder = SYS_DEV / numbers.replace(",", ":")
    return _disks_of(folder.resolve(), mounts) if folder.exists() else set()


def _disks_of(folder: Path, mounts: list[Mount]) -> set[str]:
    if (folder / "partition").exists():
        folder = folder.parent
    disks = {folder.name}
    slaves = folder / "slaves"
    for slave in sorted(slaves.iterdir()) if slaves.is_dir() else []:
        disks |= _disks_of(slave.resolve(), mounts)
    backing = folder / "loop/backing_file"
    if backing.exists():
        file = Path(backing.read_text().strip())
        disks |= disks_below(file, mounts) if file.exists() else set()
    return disks


def _unescaped(text: str) -> str:
    """Undo the octal escapes of the kernel's tables, such as `\\040` for a space."""
    for code in ("040", "011", "012", "134"):
        text = text.replace(f"\\{code}", chr(int(code, 8)))
    return text


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
    """Return what the partition holds, or None for another kind."""
    with device.open("rb") as file:
        first = file.read(_SWAP_AT + len(_SWAP_MAGIC))
        super_block = first[_EXT_AT : _EXT_AT + _EXT_BYTES]
        if first[_SWAP_AT:] == _SWAP_MAGIC:
            return Signature("swap", _uuid(first, _SWAP_UUID_AT))
        if len(super_block) < _EXT_BYTES or _u16(super_block, 0x38) != _EXT_MAGIC:
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


def _u16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _uuid(data: bytes, at: int) -> str:
    return str(uuid.UUID(bytes=data[at : at + 16]))


LAYOUT_VERSION = 1
BLOCK_FOLDER = Path("/sys/block")


def find_disk(device: str) -> Path:
    """Return the folder in /sys/block of a whole disk such as /dev/loop0.

    Raise UsageError for anything else; for a partition, name its disk.
    """
    name = Path(device).resolve().name
    disk, parent = BLOCK_FOLDER / name, Path("/sys/class/block") / name
    if disk.is_dir():
        return disk
    if (parent / "partition").exists():
        whole = parent.resolve().parent.name
        hint = f"trace the whole disk, /dev/{whole}: its requests are listed by partition"
        raise UsageError(f"{device} is a partition", hint=hint)
    hint = "lsblk lists the disks of this machine; a command stands behind --"
    raise UsageError(f"{device} is not a block device", hint=hint)


def find_disks(devices: Sequence[str]) -> list[Path]:
    """Return the folder in /sys/block of each disk.

    Raise UsageError as `find_disk` does, and for a disk that is named twice.
    """
    found: dict[Path, str] = {}
    for device in devices:
        disk = find_disk(device)
        if disk in found:
            also = "" if found[disk] == device else f", also as {found[disk]}"
            raise UsageError(f"{device} is named twice{also}", hint="name each disk once")
        found[disk] = device
    return list(found)


def read_layout(
    disks: Sequence[Path], mounts: list[Mount], *, reads_content: bool = True
) -> dict[str, Any]:
    """Return the parts of layout.json that describe the disks; signatures are in their content."""
    return _read(disks, mounts, reads_content=reads_content)[0]


def _read(
    disks: Sequence[Path], mounts: list[Mount], *, reads_content: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the layout, and why the content of a disk could not be read, by its name."""
    folders = [(disk, folder) for disk in disks for folder in _parts_of(disk)]
    # Of all disks: the journal of a file system may lie on another one.
    signatures: dict[str, Signature | None] = {}
    unread: dict[str, str] = {}
    for disk, folder in folders:
        signatures[folder.name] = None
        try:
            if reads_content:
                signatures[folder.name] = read_signature(Path("/dev") / folder.name)
        except OSError as error:
            unread[disk.name] = f"its content cannot be read: {error.strerror}"
    mounted, swaps = by_device(mounts), active_swaps()
    partitions: list[dict[str, Any]] = []
    for disk, folder in folders:
        whole = _partition(folder, signatures, mounted.get(_numbers(folder)), swaps)
        if whole["role"] == "unknown" and disk.name in unread:
            whole["evidence"] = f"no mount, and {unread[disk.name]}"
        whole = {"device": disk.name, **whole}
        partitions += [whole, *_journal_pieces(whole, signatures[folder.name])]
    layout = {
        "layout_version": LAYOUT_VERSION,
        "kernel": platform.release(),
        "devices": [_describe_disk(disk) for disk in disks],
        "partitions": partitions,
    }
    return layout, unread


def read_again(
    before: dict[str, Any],
    disks: Sequence[Path],
    *,
    mounts: list[Mount],
    reads_content: bool = True,
) -> tuple[dict[str, Any], list[str]]:
    """Return the layout as it is now, and the disks that went away, which keep what was before.

    A loop device that is detached goes step by step: it cannot be read, has no bytes, is not there.
    """
    while True:
        there = [disk for disk in disks if _has_bytes(disk)]
        try:
            now, unread = _read(there, mounts, reads_content=reads_content)
        except OSError:
            if all(map(_has_bytes, there)):
                raise
            continue  # one went away meanwhile
        break
    known = {disk.name for disk in there if disk.name not in unread and _has_bytes(disk)}
    gone = []
    for disk in disks:
        kept, found = (_entries(layout, disk.name) for layout in (before, now))
        if disk.name not in known and kept != found:
            gone.append(disk.name)
    for key in ("devices", "partitions"):
        now[key] = [entry for entry in now[key] if entry["device"] not in gone]
        now[key] += [entry for entry in before[key] if entry["device"] in gone]
    return now, gone


def _entries(layout: Mapping[str, Any], device: str) -> list[dict[str, Any]]:
    """Return what a layout has of a disk."""
    entries = [*layout["devices"], *layout["partitions"]]
    return [entry for entry in entries if entry["device"] == device]


def _has_bytes(disk: Path) -> bool:
    try:
        return _number(disk / "size") > 0
    except OSError:
        return False


def _parts_of(disk: Path) -> list[Path]:
    """Return the folders of a disk's partitions, or the disk itself where it has none."""
    parts = sorted(disk.glob(f"{disk.name}*/partition"), key=_number)
    return [file.parent for file in parts] or [disk]


def _describe_disk(disk: Path) -> dict[str, Any]:
    major, minor = _numbers(disk).split(",")
    try:
        scheduler = read_setting(disk / "queue/scheduler")
    except FileNotFoundError:
        scheduler = "none"  # disks without queues (dm, md, zram) have no file for it
    return {
        "device": disk.name,
        "major": int(major),
        "minor": int(minor),
        "size_sectors": _number(disk / "size"),
        "logical_sector_bytes": _number(disk / "queue/logical_block_size"),
        "rotational": _number(disk / "queue/rotational") == 1,
        "scheduler": scheduler,
    }


def _partition(
    folder: Path,
    signatures: Mapping[str, Signature | None],
    mount: Mount | None,
    swaps: Mapping[str, str],
) -> dict[str, Any]:
    """Return a partition's entry with its role, and the evidence for that."""
    signature, start = signatures[folder.name], folder / "start"
    kind, uuid = (signature.kind, signature.uuid) if signature else (None, None)
    if kind == "swap" or folder.name in swaps:
        used = "in use" if folder.name in swaps else "not in use"
        role, evidence = "swap", f"swap signature, UUID {uuid or '?'}, {used}"
    elif kind == "jbd":
        named = signatures.items()
        users = [name for name, other in named if other and other.journal_uuid == uuid]
        whose = f"external journal of {', '.join(users)}" if users else "external ext4 journal"
        role, evidence = "journal", f"{whose}, journal UUID {uuid}"
    elif mount is not None:
        role, evidence = "fs", f"{mount.filesystem} mounted on {mount.point}"
    elif signature is not None:
        role, evidence = "fs", f"{kind} super block, UUID {uuid}, not mounted"
    else:
        role, evidence = "unknown", "no mount, and no ext4, journal or swap signature"
    return {
        "partition": _numbers(folder),
        "name": folder.name,
        "start_sector": _number(start) if start.exists() else 0,
        "sectors": _number(folder / "size"),
        "role": role,
        "filesystem": mount.filesystem if mount else kind,
        "mount": mount.point if mount else None,
        "evidence": evidence,
        "uuid": uuid,
        "journal_uuid": signature.journal_uuid if signature else None,
    }


def _journal_pieces(whole: dict[str, Any], signature: Signature | None) -> list[dict[str, Any]]:
    """Return an entry for each piece of a journal that lies inside a file system."""
    name = whole["name"]
    piece = {
        **whole,
        "name": f"{name} journal",
        "role": "journal",
        "filesystem": "jbd",
        "mount": None,
        "evidence": f"extent of the journal inode of the ext4 on {name}, from its super block",
        "uuid": None,
        "journal_uuid": None,
    }
    return [
        {**piece, "start_sector": whole["start_sector"] + first_sector, "sectors": sectors}
        for first_sector, sectors in (signature.journal_extents if signature else ())
    ]


def _numbers(folder: Path) -> str:
    return (folder / "dev").read_text().strip().replace(":", ",")


def _number(file: Path) -> int:
    return int(file.read_text())
