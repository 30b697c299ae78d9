"""What is on the traced disk: its partitions and their roles, each with the evidence for it."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tracekit.capture.mounts import Mount, active_swaps, by_device
from tracekit.capture.signatures import Signature, read_signature
from tracekit.capture.tracefs import read_setting
from tracekit.errors import UsageError

LAYOUT_VERSION = 1
BLOCK_FOLDER = Path("/sys/block")


@dataclass(frozen=True)
class Partition:
    """A part of a disk with one role; keys as documented for layout.json."""

    device: str
    partition: str
    """Numbers `major,minor`."""
    name: str
    start_sector: int
    sectors: int
    role: str
    filesystem: str | None
    mount: str | None
    evidence: str
    uuid: str | None = None
    journal_uuid: str | None = None


def find_disk(device: str) -> Path:
    """Return the folder in /sys/block of a whole disk such as /dev/loop0.

    Raise UsageError for anything else; for a partition, name its disk.
    """
    name = Path(device).resolve().name
    disk = BLOCK_FOLDER / name
    if disk.is_dir():
        return disk
    parent = Path("/sys/class/block") / name
    if (parent / "partition").exists():
        whole = parent.resolve().parent.name
        raise UsageError(
            f"{device} is a partition",
            hint=f"trace the whole disk, /dev/{whole}: its requests are told apart by partition",
        )
    raise UsageError(
        f"{device} is not a block device",
        hint="lsblk lists the disks of this machine; a command stands behind --",
    )


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


def read_layout(disks: Sequence[Path], mounts: list[Mount]) -> dict[str, Any]:
    """Return the parts of layout.json that describe the disks."""
    folders = [(disk, folder) for disk in disks for folder in _parts_of(disk)]
    # Of all disks: the journal of a file system may lie on another one.
    signatures = {folder.name: read_signature(Path("/dev") / folder.name) for _, folder in folders}
    mounted, swaps = by_device(mounts), active_swaps()
    partitions: list[Partition] = []
    for disk, folder in folders:
        facts = _Facts(folder, disk.name, signatures, mounted.get(_numbers(folder)), swaps)
        partitions += [facts.partition(), *facts.journal_pieces()]
    return {
        "layout_version": LAYOUT_VERSION,
        "kernel": platform.release(),
        "devices": [_describe_disk(disk) for disk in disks],
        "partitions": [asdict(partition) for partition in partitions],
    }


def read_again(
    before: dict[str, Any], disks: Sequence[Path], *, mounts: list[Mount]
) -> dict[str, Any]:
    """Return the layout as it is now; a disk that went away keeps what was read before."""
    there = [disk for disk in disks if disk.is_dir()]
    now, names = read_layout(there, mounts), [disk.name for disk in there]
    for key in ("devices", "partitions"):
        now[key] += [entry for entry in before[key] if entry["device"] not in names]
    return now


def _parts_of(disk: Path) -> list[Path]:
    """Return the folders of a disk's partitions, or the disk itself where it has none."""
    parts = sorted(disk.glob(f"{disk.name}*/partition"), key=lambda file: _number(file, ""))
    return [file.parent for file in parts] or [disk]


def _describe_disk(disk: Path) -> dict[str, Any]:
    major, minor = _numbers(disk).split(",")
    return {
        "device": disk.name,
        "major": int(major),
        "minor": int(minor),
        "size_sectors": _number(disk / "size", ""),
        "logical_sector_bytes": _number(disk, "queue/logical_block_size"),
        "rotational": _number(disk, "queue/rotational") == 1,
        "scheduler": _scheduler(disk),
    }


def _scheduler(disk: Path) -> str:
    """Return the I/O scheduler's name; disks without queues (dm, md, zram) have no file for it."""
    try:
        return read_setting(disk / "queue/scheduler")
    except FileNotFoundError:
        return "none"


@dataclass(frozen=True)
class _Facts:
    """What is known of one partition, and what follows from it."""

    folder: Path
    disk: str
    signatures: dict[str, Signature | None]
    mount: Mount | None
    swaps: dict[str, str]

    def partition(self) -> Partition:
        signature = self.signatures[self.folder.name]
        role, evidence = self._role(signature)
        kind = signature.kind if signature else None
        return Partition(
            device=self.disk,
            partition=_numbers(self.folder),
            name=self.folder.name,
            start_sector=self._start_sector(),
            sectors=_number(self.folder, "size"),
            role=role,
            filesystem=self.mount.filesystem if self.mount else kind,
            mount=self.mount.point if self.mount else None,
            evidence=evidence,
            uuid=signature.uuid if signature else None,
            journal_uuid=signature.journal_uuid if signature else None,
        )

    def journal_pieces(self) -> list[Partition]:
        """Return an entry for each piece of a journal that lies inside the file system."""
        signature = self.signatures[self.folder.name]
        return [
            Partition(
                device=self.disk,
                partition=_numbers(self.folder),
                name=f"{self.folder.name} journal",
                start_sector=self._start_sector() + first_sector,
                sectors=sectors,
                role="journal",
                filesystem="jbd",
                mount=None,
                evidence=f"extent of the journal inode of the ext4 on {self.folder.name}, "
                "from its super block",
                uuid=None,
            )
            for first_sector, sectors in (signature.journal_extents if signature else ())
        ]

    def _start_sector(self) -> int:
        return _number(self.folder, "start") if (self.folder / "start").exists() else 0

    def _role(self, signature: Signature | None) -> tuple[str, str]:
        kind = signature.kind if signature else None
        if kind == "swap" or self.folder.name in self.swaps:
            used = "in use" if self.folder.name in self.swaps else "not in use"
            return "swap", f"swap signature, UUID {signature.uuid if signature else '?'}, {used}"
        if signature is not None and kind == "jbd":
            return "journal", self._journal_evidence(signature)
        if self.mount is not None:
            return "fs", f"{self.mount.filesystem} mounted on {self.mount.point}"
        if signature is not None:
            return "fs", f"{signature.kind} super block, UUID {signature.uuid}, not mounted"
        return "unknown", "no mount, and no ext4, journal or swap signature"

    def _journal_evidence(self, signature: Signature) -> str:
        users = [
            name
            for name, other in self.signatures.items()
            if other is not None and other.journal_uuid == signature.uuid
        ]
        whose = f"external journal of {', '.join(users)}" if users else "external ext4 journal"
        return f"{whose}, journal UUID {signature.uuid}"


def _numbers(folder: Path) -> str:
    return (folder / "dev").read_text().strip().replace(":", ",")


def _number(folder: Path, name: str) -> int:
    return int((folder / name if name else folder).read_text())
