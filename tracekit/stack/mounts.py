"""What the kernel says is mounted and swapped to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """A mounted file system."""

    device: str
    """Numbers `major,minor`."""
    point: str
    filesystem: str
    source: str
    options: str = ""
    """Of the file system itself."""
    root: str = "/"
    """Folder of the file system that is mounted."""

    def option(self, name: str) -> str | None:
        """Return the value of an option, such as that of `upperdir` or `logdev`."""
        named = (one.partition("=") for one in self.options.split(","))
        return next((value for key, _, value in named if key == name and value), None)


@dataclass(frozen=True)
class Swap:
    """A device or file that is swapped to."""

    path: str
    is_file: bool


def read_mounts(table: Path = Path("/proc/self/mountinfo")) -> list[Mount]:
    """Return what is mounted, in the order of mounting."""
    mounts = []
    for line in table.read_text().splitlines():
        fields = line.split(" ")
        filesystem, source, options = (*fields[fields.index("-") + 1 :], "", "")[:3]
        device, (root, point) = fields[2].replace(":", ","), map(_unescaped, fields[3:5])
        words = (_unescaped(source), _unescaped(options))
        mounts.append(Mount(device, point, filesystem, *words, root))
    return mounts


def by_device(mounts: list[Mount]) -> dict[str, Mount]:
    """Return the first mount of each block device; bind mounts come later."""
    return {mount.device: mount for mount in reversed(mounts)}


def read_swaps(text: str) -> list[Swap]:
    """Return what /proc/swaps lists."""
    rows = (line.split() for line in text.splitlines())
    return [
        Swap(_unescaped(row[0]), row[1] == "file")
        for row in rows
        if len(row) >= 2 and row[1] in ("file", "partition")
    ]


def _unescaped(text: str) -> str:
    """Undo the octal escapes of the kernel's tables, such as `\\040` for a space."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
