"""Files into which records of the kernel go, in one step: a kill loses none that was taken."""

from __future__ import annotations

import errno
import math
import mmap
import os
from collections.abc import Callable
from pathlib import Path

from tracekit.capture.recording import (
    HEADER_7,
    HEADER_8,
    MAGIC_BYTES,
    MAGICS,
    PDU_LENGTH,
    PDU_LENGTH_AT,
)
from tracekit.errors import TracekitError

READ_BYTES = 1 << 16
"""More than the kernel gives at once, so that a reading ends with a whole record."""
STEPS_BYTES = (4 << 20, 4 * READ_BYTES, READ_BYTES)
"""How much is allocated at once: less where a disk has no more."""
FIRST_BYTES = 2 * READ_BYTES
TOUCHED_BYTES = 2 * mmap.PAGESIZE
FULL = (errno.ENOSPC, errno.EDQUOT)
Seen = Callable[[bytes], None]


class Spool:
    """A new file that is read into as memory: the kernel copies into the file itself.

    Its blocks are allocated before anything is taken, so that a full disk costs no record either.
    """

    def __init__(
        self, path: Path, on_growth: Callable[[int], None] = lambda _step_bytes: None
    ) -> None:
        """Make the file with its first blocks.

        `on_growth` is called after each allocation but the first, with its bytes, and may raise
        TracekitError: then less is tried, or nothing more is taken, and it is given back.
        """
        self.path = path
        self._on_growth = on_growth
        self.size = 0
        """Bytes of records; what is behind them are zeros until it is closed."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        self._base = self._end = 0
        self._view = memoryview(b"")
        self._map: mmap.mmap | None = None
        try:
            os.posix_fallocate(self._file, 0, FIRST_BYTES)
            self._end = FIRST_BYTES
            self._remap()
        except OSError:
            os.close(self._file)
            path.unlink()
            raise

    @property
    def allocated_bytes(self) -> int:
        """What the file takes until it is closed."""
        return self._end

    def fill(self, pipe: int, seen: Seen | None = None, *, most_bytes: float = math.inf) -> int:
        """Take what a pipe holds; return how many bytes. `seen` gets a copy of them.

        It ends after the reading with which it has `most_bytes`, and else when the pipe is empty.
        """
        first = begin = self.size
        while True:
            if self._end - self.size < READ_BYTES:
                self._show(begin, seen)
                begin = self.size
                self._extend()
            got = self._read(pipe)
            self.size += got
            if got == 0 or self.size - first >= most_bytes:
                self._show(begin, seen)
                return self.size - first

    def _read(self, pipe: int) -> int:
        at = self.size - self._base
        target = self._view[at : at + READ_BYTES]
        # A process that is being killed gets no more pages: they are to be there before.
        for place in range(0, TOUCHED_BYTES + 1, mmap.PAGESIZE):
            target[place] = 0
        try:
            return os.readv(pipe, [target])
        except BlockingIOError:
            return 0
        finally:
            target.release()

    def _show(self, begin: int, seen: Seen | None) -> None:
        if seen is not None and self.size > begin:
            seen(bytes(self._view[begin - self._base : self.size - self._base]))

    def _extend(self) -> None:
        for step in STEPS_BYTES:
            try:
                self._grow(step)
                break
            except (OSError, TracekitError) as error:
                is_full = isinstance(error, TracekitError) or error.errno in FULL
                if not is_full or step == STEPS_BYTES[-1]:
                    raise
        self._remap()

    def _grow(self, step: int) -> None:
        end = self._end
        os.posix_fallocate(self._file, end, step)
        self._end += step
        try:
            self._on_growth(step)
        except TracekitError:
            os.ftruncate(self._file, end)
            self._end = end
            raise

    def _remap(self) -> None:
        self._unmap()
        self._base = self.size // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        self._map = mmap.mmap(self._file, self._end - self._base, offset=self._base)
        self._view = memoryview(self._map)

    def _unmap(self) -> None:
        self._view.release()
        if self._map is not None:
            self._map.close()

    def close(self) -> Path:
        """Cut what was allocated and not used; return the file's path."""
        if self._file >= 0:
            self._unmap()
            os.ftruncate(self._file, self.size)
            os.close(self._file)
            self._file = -1
        return self.path


def cut_zeros(path: Path) -> None:
    """Cut what a killed process left behind the last record of a file."""
    with path.open("r+b") as file:
        header = HEADER_8 if file.read(MAGIC_BYTES) == MAGICS[HEADER_8] else HEADER_7
        magic = MAGICS[header]
        end = size = file.seek(0, os.SEEK_END)
        while end > 0:
            begin = max(0, end - STEPS_BYTES[0])
            file.seek(begin)
            data = file.read(min(end + header.itemsize, size) - begin)
            found = data.rfind(magic)
            if found >= 0:
                length_at = found + PDU_LENGTH_AT[header]
                extra = PDU_LENGTH.unpack_from(data.ljust(length_at + 2, b"\0"), length_at)[0]
                end = begin + found + header.itemsize + extra
                break
            end = begin
        if _is_zero(file.fileno(), end, size):
            file.truncate(end)


def _is_zero(file: int, begin: int, end: int) -> bool:
    steps = range(begin, end, STEPS_BYTES[0])
    return not any(any(os.pread(file, min(STEPS_BYTES[0], end - at), at)) for at in steps)
