"""Which block device carries which mount, which swap, and which other block device."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

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
        after = fields.index("-")
        mounts.append(
            Mount(
                device=fields[2].replace(":", ","),
                point=_unescaped(fields[4]),
                filesystem=fields[after + 1],
                source=_unescaped(fields[after + 2]),
            )
        )
    return mounts


def by_device(mounts: list[Mount]) -> dict[str, Mount]:
    """Return the first mount of each block device; bind mounts come later."""
    found: dict[str, Mount] = {}
    for mount in mounts:
        found.setdefault(mount.device, mount)
    return found


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
