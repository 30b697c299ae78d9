"""The decoder of strace's output: `replayer/strace/calls.h` for numpy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit._native.library import (
    Owned,
    array,
    constant,
    dtype_of,
    out,
    struct,
    text_at,
)

BATCH_ROWS = 65_536
DIRECT = constant("FLAG_DIRECT")
SYNC = constant("FLAG_SYNC")
APPEND = constant("FLAG_APPEND")
TRUNCATE = constant("FLAG_TRUNCATE")
EXCLUSIVE = constant("FLAG_EXCLUSIVE")
ROW = dtype_of("struct tk_operation")
FILE = dtype_of("struct tk_calls_file")
_PROCESSES, _LEFT_OUT, _BAD_LINE = range(3)  # lists of tk_calls_word


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


class Calls(Owned):
    """Decodes an open file of strace's output from its beginning."""

    kind = "tk_calls"
    made_by, freed_by = "open", "close"
    failure = "the recorded calls cannot be decoded"

    def __init__(self, fd: int, start: Start) -> None:
        options = struct(
            "tk_calls_options",
            folder=os.fsencode(start.folder),
            below=None if start.below is None else os.fsencode(start.below),
            start_ns=start.start_ns,
            is_snapshot=start.has_snapshot,
        )
        super().__init__(fd, options)
        for one in start.known:
            numbers = (len(one.path), one.kind, one.size_bytes, one.evidence)
            self._check(self._call("know", one.path, *numbers))
        for number, path, position, flags in start.inherited:
            self._check(self._call("inherit", number, os.fsencode(path), position, flags))

    def batches(self) -> Iterator[NDArray[np.void]]:
        """Yield the rows in the order of their starts, as arrays of ROW."""
        while True:
            rows = np.empty(BATCH_ROWS, ROW)
            count = self._check(self._call("next", rows, BATCH_ROWS))
            if count == 0:
                return
            yield rows[:count]

    def stats(self) -> dict[str, int]:
        """Return what was read so far, by the names of `struct tk_calls_stats`."""
        return dict(self._read("stats", "tk_calls_stats"))

    def files(self) -> tuple[list[bytes], NDArray[np.void]]:
        """Return the paths, and an array of FILE."""
        text = out("char *")
        count = self._call("files", None, None, text)
        found, ends = np.empty(count, FILE), np.empty(count, np.int64)
        self._call("files", found, ends, text)
        places = ends.tolist()
        whole = text_at(text[0], places[-1]) if places else b""
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
        text, count = array("char", constant("TK_CALLS_TEXT")), out("int64_t")
        while not self._call("word", which, place, text, count):
            yield text_at(text).decode(errors="replace"), count[0]
            place += 1
