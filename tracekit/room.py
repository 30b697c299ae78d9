"""Whether a disk takes what is to be written: asked before anything is made."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tracekit.errors import InputError
from tracekit.sizes import format_size


def check_room(
    path: Path, needed_bytes: int, *, hint: str, spare_bytes: int = 0, is_estimate: bool = False
) -> None:
    """Raise InputError when `path`, which need not exist, cannot get so many bytes on its disk.

    `spare_bytes` are to stay free; `hint` says what to do about too little room.
    """
    place = _folder_of(path)
    check_writable(place, path)
    room = os.statvfs(place)
    free_bytes = max(room.f_bavail * room.f_frsize - spare_bytes, 0)
    if free_bytes < needed_bytes:
        needed = f"{'an estimated ' if is_estimate else ''}{format_size(needed_bytes)}"
        raise InputError(
            f"{path}: {needed} are needed, {format_size(free_bytes)} are free on its disk",
            hint=hint,
        )


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
