"""The native decoder of strace's output: `replayer/strace/calls.h`."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit._native import library
from tracekit._native.owned import Owned
from tracekit.errors import TracekitError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH_ROWS = 65_536
TEXT_BYTES = 200
DIRECT, SYNC, APPEND, TRUNCATE, EXCLUSIVE = (1 << bit for bit in range(5))
ROW = [
    *((name, "<i8") for name in ("start_ns", "end_ns", "file_id", "other_file_id", "handle")),
    *((name, "<i8") for name in ("offset_bytes", "length_bytes", "done_bytes")),
    *((name, "<i4") for name in ("process", "pid", "tid", "error", "operation", "flags")),
]
FILE = [
    ("first_bytes", "<i8"),
    ("kind", "<i4"),
    ("evidence", "<i4"),
    ("is_used", "<i4"),
    ("unused", "<i4"),
]
_COUNTS = (
    *("bytes", "lines", "calls", "joined", "rows", "filtered", "bad_lines", "first_bad_line"),
    *("orphan_ends", "unfinished", "abandoned", "left_out", "adopted", "unplaced"),
    *("guessed_creates", "backwards", "forced", "orphan_threads", "base_ns", "last_ns"),
)
_PROCESSES, _LEFT_OUT, _BAD_LINE = range(3)


class _Options(ctypes.Structure):
    _fields_ = [
        ("folder", ctypes.c_char_p),
        ("below", ctypes.c_char_p),
        ("start_ns", ctypes.c_int64),
        ("is_snapshot", ctypes.c_int32),
    ]


class _Stats(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in _COUNTS]


@dataclass(frozen=True)
class Known:
    """What was at a path before the command began; numbers of the native enums."""

    path: bytes
    kind: int
    size_bytes: int
    """-1 when it is no plain file."""
    evidence: int


@dataclass(frozen=True)
class Start:
    """What a trace begins with."""

    folder: str
    """Where the command began."""
    below: str | None = None
    """Rows of files below this folder only."""
    start_ns: int = 0
    """Unix time before the command began; 0: files that are still there are not looked at."""
    known: tuple[Known, ...] = ()
    has_snapshot: bool = False
    """`known` is everything that was below `below`."""
    inherited: tuple[tuple[int, str, int, int], ...] = ()
    """Descriptors that the command began with: number, path, position, flags of open."""


@functools.cache
def _native() -> ctypes.CDLL:
    native = library()
    handle, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64
    small = ctypes.c_int32
    native.tk_calls_open.argtypes = [small, ctypes.POINTER(_Options), ctypes.c_void_p]
    native.tk_calls_know.argtypes = [handle, text, number, small, number, small]
    native.tk_calls_inherit.argtypes = [handle, small, text, number, small]
    native.tk_calls_next.argtypes = [handle, ctypes.c_void_p, number]
    native.tk_calls_next.restype = number
    native.tk_calls_stats.argtypes = [handle, ctypes.POINTER(_Stats)]
    native.tk_calls_stats.restype = None
    native.tk_calls_files.argtypes = [handle, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    native.tk_calls_files.restype = number
    native.tk_calls_word.argtypes = [handle, small, number, text, ctypes.POINTER(number)]
    native.tk_calls_close.argtypes = [handle]
    native.tk_calls_close.restype = None
    return native


def _check(status: int) -> int:
    if status < 0:
        raise TracekitError(f"strace's output cannot be decoded: {os.strerror(-status)}")
    return status


class Calls(Owned):
    """Decodes an open file of strace's output from its beginning; use it in a `with` block."""

    free_function = "tk_calls_close"

    def __init__(self, fd: int, start: Start) -> None:
        super().__init__()
        self._native = _native()
        options = _Options(
            os.fsencode(start.folder),
            None if start.below is None else os.fsencode(start.below),
            start.start_ns,
            int(start.has_snapshot),
        )
        _check(self._native.tk_calls_open(fd, options, ctypes.byref(self._handle)))
        for one in start.known:
            numbers = (len(one.path), one.kind, one.size_bytes, one.evidence)
            _check(self._native.tk_calls_know(self._handle, one.path, *numbers))
        for number, path, position, flags in start.inherited:
            name = os.fsencode(path)
            _check(self._native.tk_calls_inherit(self._handle, number, name, position, flags))

    def batches(self) -> Iterator[NDArray[np.void]]:
        """Yield the rows in the order of their starts, as arrays of the fields of ROW."""
        import numpy as np

        while True:
            rows = np.empty(BATCH_ROWS, ROW)
            count = _check(self._native.tk_calls_next(self._handle, rows.ctypes.data, BATCH_ROWS))
            if count == 0:
                return
            yield rows[:count]

    def stats(self) -> dict[str, int]:
        """Return what was read so far, by the names of `struct tk_calls_stats`."""
        stats = _Stats()
        self._native.tk_calls_stats(self._handle, ctypes.byref(stats))
        return {name: int(getattr(stats, name)) for name in _COUNTS}

    def files(self) -> tuple[list[bytes], NDArray[np.void]]:
        """Return the paths, and an array of the fields of FILE."""
        import numpy as np

        text = ctypes.c_void_p()
        count = self._native.tk_calls_files(self._handle, None, None, ctypes.byref(text))
        found = np.empty(count, FILE)
        ends = np.empty(count, np.int64)
        self._native.tk_calls_files(
            self._handle, found.ctypes.data, ends.ctypes.data, ctypes.byref(text)
        )
        whole = ctypes.string_at(text, int(ends[-1])) if count else b""
        places = ends.tolist()
        return [whole[start:end] for start, end in zip([0, *places], places, strict=False)], found

    def processes(self) -> list[str]:
        """Return the names of processes known by now; their places are in the rows."""
        return [name for name, _ in self._words(_PROCESSES)]

    def left_out(self) -> dict[str, int]:
        """Return how many calls that have no row there were, by name."""
        return dict(self._words(_LEFT_OUT))

    def bad_line(self) -> str:
        """Return the beginning of the first bad line."""
        return next(self._words(_BAD_LINE))[0]

    def _words(self, which: int) -> Iterator[tuple[str, int]]:
        place = 0
        text = ctypes.create_string_buffer(TEXT_BYTES)
        count = ctypes.c_int64()
        while not self._native.tk_calls_word(self._handle, which, place, text, count):
            yield text.value.decode(errors="replace"), count.value
            place += 1
