"""Where the benches of file operations run: in memory, and on an ext4 whose disk is memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.replay.disk import call, image, loop, mounted

MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of its own below it
DISK_MIB = 3072
EAGER = "lazy_itable_init=0,lazy_journal_init=0"  # nothing is left to write behind the bench


@contextmanager
def tmpfs() -> Iterator[Path]:
    """Yield a directory in memory."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as place:
        yield Path(place)


@contextmanager
def ext4() -> Iterator[Path]:
    """Yield a new ext4 on a loop device, whose image is in memory; needs root."""
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as place,
        loop(image(Path(place) / "image", mib=DISK_MIB)) as device,
    ):
        call("mkfs.ext4", "-q", "-E", EAGER, str(device))
        with mounted(device, Path(place) / "ext4") as mount:
            yield mount


FILE_SYSTEMS = {"tmpfs": tmpfs, "ext4": ext4}
