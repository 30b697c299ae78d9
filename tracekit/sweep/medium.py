"""Whether files of a directory are persistent memory itself, without the page cache (DAX)."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
MEMORY = frozenset(("tmpfs", "ramfs"))
ALWAYS = frozenset(("dax", "dax=always"))
GET_ATTRIBUTES = 0x801C581F  # FS_IOC_FSGETXATTR of <linux/fs.h>
ATTRIBUTES = struct.Struct("=5I8x")
DAX_FLAG = 0x8000  # FS_XFLAG_DAX, which new files of a directory inherit


def is_dax(directory: Path, *, mounts: Path = MOUNTS) -> bool:
    """Say whether new files of a directory are used by DAX: by the mount, or by its own flag."""
    if any(not ALWAYS.isdisjoint(words[-1].split(",")) for words in _mounts(directory, mounts)):
        return True
    return has_flag(directory)


def is_memory(directory: Path, *, mounts: Path = MOUNTS) -> bool:
    """Say whether files of a directory are in memory alone, so that no device is written to."""
    return any(words[-3] in MEMORY for words in _mounts(directory, mounts))


def file_system(directory: Path, *, mounts: Path = MOUNTS) -> str:
    """Return the name of a directory's file system, such as ext4."""
    return next((words[-3] for words in _mounts(directory, mounts)), "an unknown file system")


def _mounts(directory: Path, mounts: Path) -> Iterator[list[str]]:
    """Yield the lines of a directory's file system, which end in its name, source and options."""
    device = os.stat(directory).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.read_text(errors="surrogateescape").splitlines():
        words = line.split(" ")
        if words[2] == number:
            yield words


def has_flag(directory: Path) -> bool:
    """Say whether a directory hands the flag for DAX down; False where there are no such flags."""
    attributes = bytearray(ATTRIBUTES.size)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, GET_ATTRIBUTES, attributes)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return bool(ATTRIBUTES.unpack(attributes)[0] & DAX_FLAG)
