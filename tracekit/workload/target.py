"""The file that a bench runs on when it is given none: filled, so that no read meets a hole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracekit.errors import UsageError
from tracekit.room import Need, check_rooms
from tracekit.sizes import format_size
from tracekit.workload.model import Profile

CHUNK_BYTES = 4 << 20
FREE_BYTES = 64 << 20  # that are left on a disk


def size_of(path: Path) -> int:
    """Return the bytes of a file or block device."""
    with path.open("rb") as target:
        return target.seek(0, os.SEEK_END)


def check_size(profile: Profile, path: Path) -> None:
    """Raise UsageError when a target that is there is smaller than the profile's."""
    found = size_of(path)
    if found < profile.target_bytes:
        raise UsageError(
            f"--target {path}: it has {format_size(found)}, the profile {profile.name} needs"
            f" {format_size(profile.target_bytes)}",
            hint=f"pass --target-size {found // profile.sector_bytes * profile.sector_bytes}",
        )


def target_need(path: Path, size_bytes: int) -> Need:
    """Return what the file takes on its disk."""
    return Need(path, size_bytes, hint="choose a smaller --target-size, or a --target elsewhere")


@contextmanager
def filled_file(path: Path, size_bytes: int, *, keep: bool) -> Iterator[Path]:
    """Make a file with random content of that size, and remove it afterwards unless `keep`.

    Raise InputError before anything is written when the disk has no room for it.
    """
    check_rooms([target_need(path, size_bytes)], spare_bytes=FREE_BYTES)
    path.parent.mkdir(parents=True, exist_ok=True)
    is_done = False
    try:
        _fill(path, size_bytes)
        yield path
        is_done = True
    finally:
        if not (keep and is_done):
            path.unlink(missing_ok=True)


def _fill(path: Path, size_bytes: int) -> None:
    from numpy.random import PCG64, Generator

    content = Generator(PCG64(0))
    with path.open("xb") as target:
        left = size_bytes
        while left:
            part = content.bytes(min(left, CHUNK_BYTES))
            target.write(part)
            left -= len(part)
        target.flush()
        os.fsync(target.fileno())
