"""Locks of folders: commands that read a folder share it, one that writes it has it alone.

A lock is the kernel's (flock) and ends with its process, so none is ever stale. Where a file
system has none, as on some networks, commands go on without.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tracekit.escapes import escape
from tracekit.progress import hidden


@dataclass
class _Lock:
    number: int
    """Of the open folder."""
    is_shared: bool


class _Held(threading.local):
    """The locks of this thread, by device and inode."""

    def __init__(self) -> None:
        self.locks: dict[tuple[int, int], _Lock] = {}


_held = _Held()


@contextmanager
def folder_lock(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock of a folder that is there.

    A thread can take again what it has. What a command runs does not wait for that command.
    """
    known = _held.locks.get(_key(folder))
    if known is None:
        with _first(folder, shared=shared):
            yield
    elif shared or not known.is_shared:
        yield
    else:
        _wait(known.number, folder, shared=False)
        known.is_shared = False
        try:
            yield
        finally:
            known.is_shared = True
            _wait(known.number, folder, shared=True)


def _key(folder: Path) -> tuple[int, int]:
    try:
        found = folder.stat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


@contextmanager
def _first(folder: Path, *, shared: bool) -> Iterator[None]:
    while (number := _open(folder)) is not None:
        try:
            _wait(number, folder, shared=shared)
            found = os.fstat(number)
            key = found.st_dev, found.st_ino
            # Another folder may have got the name meanwhile.
            if _key(folder) == key:
                _held.locks[key] = _Lock(number, shared)
                try:
                    yield
                finally:
                    del _held.locks[key]
                return
        finally:
            os.close(number)
    yield


def _open(folder: Path) -> int | None:
    with suppress(OSError):
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return None


def _wait(number: int, folder: Path, *, shared: bool) -> None:
    """Lock an open folder; one line reports that it has to wait."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(number, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        holders = holders_of(os.fstat(number))
    except OSError:
        return  # a file system without locks
    else:
        return
    if holders & _ancestors():
        return
    whose = f" by process {min(holders)}" if holders else ""
    with hidden():
        sys.stderr.write(f"tracekit: waiting for {escape(str(folder))}, in use{whose}\n")
        sys.stderr.flush()
    fcntl.flock(number, kind)


def holders_of(folder: os.stat_result) -> set[int]:
    """Return the processes that have a lock on the folder, as far as the kernel shows them."""
    device = f"{os.major(folder.st_dev):02x}:{os.minor(folder.st_dev):02x}"
    place = f"{device}:{folder.st_ino}"
    with suppress(OSError):
        rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        # One that waits has an arrow before its kind.
        return {int(row[4]) for row in rows if row[1] == "FLOCK" and row[5] == place}
    return set()


def _ancestors() -> set[int]:
    """Return the processes that run this one."""
    found = set[int]()
    pid = os.getppid()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            status = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            break
        pid = int(status.rpartition(")")[2].split()[1])
    return found
