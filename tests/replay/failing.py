"""A file system in user space whose one file fails as asked: `python -m tests.replay.failing`."""

import ctypes.util
import errno
import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NAME = "target"
SIZE_BYTES = 1 << 20
START_S = 10.0
FOR_EVER_S = 1e6


class Failing:
    """Serves one file of a MiB; each fault is off unless its setting is given.

    bad_from, bad_end: reads and writes that touch these bytes fail with EIO; again: so many of them
    with EAGAIN, and then none. room_bytes: writes behind it fail with ENOSPC. short_bytes: most
    that a call moves. gone_after: calls served before the file system is no more, hangs_after:
    before it answers no more. ends_bytes: nothing is read from there on. flush_fails: fsync fails
    with EIO, flush_hangs: it never returns. is_cached: the kernel keeps pages, so that the file can
    be mapped. name_bytes: the longest name, as statfs says it.
    """

    def __init__(self, settings: dict[str, int]) -> None:
        self.settings = settings
        self.content = bytearray(SIZE_BYTES)
        self.calls = 0
        self.refused = 0

    def _serve(self, offset: int, size: int) -> int:
        """Count a call and return how many bytes it may move, or raise its error."""
        self.calls += 1
        if self.calls > self.settings.get("gone_after", sys.maxsize):
            os._exit(0)
        if self.calls > self.settings.get("hangs_after", sys.maxsize):
            time.sleep(FOR_EVER_S)
        bad_from, bad_end = self.settings.get("bad_from", 0), self.settings.get("bad_end", 0)
        if offset < bad_end and offset + size > bad_from:
            self.refused += 1
            if self.refused > self.settings.get("again", 0) > 0:
                return size
            raise OSError(errno.EAGAIN if "again" in self.settings else errno.EIO, "bad")
        return min(size, self.settings.get("short_bytes", size))

    def getattr(self, path: str, _handle: int | None = None) -> dict[str, int]:
        """Return what stat shows."""
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
        if path != f"/{NAME}":
            raise OSError(errno.ENOENT, path)
        return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_size": SIZE_BYTES}

    def statfs(self, _path: str) -> dict[str, int]:
        """Return what statvfs shows: a GiB is free."""
        free = {"f_bfree": 1 << 18, "f_bavail": 1 << 18, "f_ffree": 1000, "f_favail": 1000}
        names = self.settings.get("name_bytes", 255)
        return {"f_bsize": 4096, "f_frsize": 4096, "f_blocks": 1 << 19, "f_namemax": names} | free

    def open(self, _path: str, _flags: int) -> int:
        """Open the only file."""
        return 1

    def read(self, _path: str, size: int, offset: int, _handle: int) -> bytes:
        """Return bytes of the file, or fail."""
        end = min(offset + self._serve(offset, size), self.settings.get("ends_bytes", SIZE_BYTES))
        return bytes(self.content[offset:end])

    def write(self, _path: str, data: bytes, offset: int, _handle: int) -> int:
        """Store bytes, or fail; return how many."""
        if offset + len(data) > self.settings.get("room_bytes", SIZE_BYTES):
            raise OSError(errno.ENOSPC, "full")
        size = self._serve(offset, len(data))
        self.content[offset : offset + size] = data[:size]
        return size

    def fsync(self, _path: str, _data_only: int, _handle: int) -> int:
        """Fail or hang if asked."""
        if self.settings.get("flush_hangs"):
            time.sleep(FOR_EVER_S)
        if self.settings.get("flush_fails"):
            raise OSError(errno.EIO, "flush")
        return 0


@contextmanager
def failing_file(place: Path, **settings: int) -> Iterator[Path]:
    """Yield the file of a mounted file system that fails; skip where none can be mounted."""
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        pytest.skip("needs root and /dev/fuse")
    if not (ctypes.util.find_library("fuse3") or ctypes.util.find_library("fuse")):
        pytest.skip("needs libfuse: apt install libfuse3-3")
    place.mkdir()
    command = [sys.executable, "-m", "tests.replay.failing", str(place), json.dumps(settings)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE) as server:
        try:
            end_s = time.monotonic() + START_S
            while not (place / NAME).exists():
                if server.poll() is not None or time.monotonic() > end_s:
                    raise AssertionError(f"no file system: {server.communicate()[1].decode()}")
                time.sleep(0.02)
            yield place / NAME
        finally:
            subprocess.run(["umount", "--lazy", str(place)], check=True)
            if not settings.keys().isdisjoint(("hangs_after", "flush_hangs")):
                server.kill()
            server.wait(START_S)


def main() -> None:
    """Mount at the first argument, with the settings of the second, until unmounted."""
    from mfusepy import FUSE

    settings = json.loads(sys.argv[2])
    FUSE(
        Failing(settings),
        sys.argv[1],
        foreground=True,
        nothreads=True,
        direct_io=not settings.get("is_cached"),
    )


if __name__ == "__main__":
    main()
