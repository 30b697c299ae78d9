"""Whether a disk has the free space for what is to be written, checked before anything is made."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tracekit.errors import InputError, MissingError
from tracekit.units import format_size


@dataclass(frozen=True)
class Need:
    """What is to be written at `path`, which need not exist; `hint` is for too little space."""

    path: Path
    size_bytes: int
    hint: str
    is_estimate: bool = False

    def __str__(self) -> str:
        """Say the size, and whether it is one of before."""
        return f"{'an estimated ' if self.is_estimate else ''}{format_size(self.size_bytes)}"


def check_room(path: Path, needed_bytes: int, *, hint: str, is_estimate: bool = False) -> None:
    """Raise InputError when `path`, which need not exist, cannot get so many bytes on its disk."""
    check_rooms([Need(path, needed_bytes, hint, is_estimate)])


def check_rooms(needs: Sequence[Need], *, spare_bytes: int = 0) -> None:
    """Raise InputError when a disk has no space for one of the needs, or for all on it.

    `spare_bytes` are to stay free on each disk.
    """
    disks: dict[int, list[Need]] = {}
    for need in needs:
        place = _folder_of(need.path)
        check_writable(place, need.path)
        disk = os.statvfs(place)
        free_bytes = disk.f_bavail * disk.f_frsize
        free = f"{format_size(free_bytes)} are free on its disk"
        if spare_bytes:
            free += f", of which {format_size(spare_bytes)} must stay free"
        if free_bytes - spare_bytes < need.size_bytes:
            raise InputError(f"{need.path}: {need} are needed, {free}", hint=need.hint)
        shared = disks.setdefault(place.stat().st_dev, [])
        shared.append(need)
        if free_bytes - spare_bytes < sum(one.size_bytes for one in shared):
            others = " and ".join(f"{one} for {one.path}" for one in shared[:-1])
            raise InputError(
                f"{need.path}: {need} are needed, beside {others} on the same disk, {free}",
                hint=need.hint,
            )


def check_target_folder(path: Path) -> None:
    """Raise MissingError for a target that could not be made: the folder for it is not there.

    Folders above a result are made; above a target they may be of a disk that is not mounted.
    """
    if not os.path.lexists(path) and not path.parent.is_dir():
        raise MissingError(path.parent, hint="mount the disk, or make the folder: mkdir -p")


def check_writable(folder: Path, path: Path) -> None:
    """Raise InputError when `path` cannot be made in `folder`, as on a read-only disk."""
    if not os.access(folder, os.W_OK):
        raise InputError(
            f"{path}: {folder} cannot be written to",
            hint="check its permissions, or choose a place on a disk that is not read-only",
        )


def _folder_of(path: Path) -> Path:
    """Return the folder that exists and in which `path`, or the folders above it, are made."""
    if path.is_char_device() or path.is_fifo():
        return Path(tempfile.gettempdir())  # what goes there is gathered in a file before
    place = path.absolute().parent
    while not place.exists():
        place = place.parent
    return place
