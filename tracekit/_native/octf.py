"""Traces of the Open CAS telemetry framework: `replayer/read/octf.h` for numpy."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from tracekit._native import library, stopped
from tracekit._native.owned import Owned
from tracekit.errors import TracekitError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COLUMNS = (
    *("time", "offset", "length", "response", "device", "operation"),
    *("is_preflush", "is_fua", "is_meta", "is_readahead", "error"),
)
"""`enum tk_octf_column`, in its order."""
BLOCK_ROWS = (1 << 16) - 8
"""Columns that lay a power of two apart would take the same lines of a cache."""
NAME_BYTES = 257


class Problem(IntEnum):
    """Why a trace cannot be read on; `enum octf_problem_kind`."""

    NONE = 0
    CUT = 1
    LENGTH = 2
    MESSAGE = 3
    HEADER = 4
    TIME = 5
    PLACE = 6
    DEVICES = 7
    READ = 8
    MEMORY = 9


class OctfStats(ctypes.Structure):
    """What was read; `struct tk_octf_stats`, where each field is explained."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            *("bytes", "messages", "requests", "completions"),
            *("unmatched_completions", "unmatched_requests", "evicted", "passed", "unknown"),
            *("numbered", "first_sid", "last_sid"),
        )
    ]


class _Problem(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("file", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("value", ctypes.c_uint64),
    ]


class _Device(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_uint64),
        ("sectors", ctypes.c_uint64),
        ("name", ctypes.c_char * NAME_BYTES),
    ]


@dataclass(frozen=True)
class Device:
    """A device of the trace; name and size as it was described, or empty and 0."""

    id: int
    sectors: int
    name: str


class Place(stopped.Place[Problem]):
    """Where and why a trace cannot be read on."""


class OctfError(stopped.StoppedError[Place]):
    """The reader stopped."""


@functools.cache
def _native() -> ctypes.CDLL:
    native = library()
    handle, head = ctypes.c_void_p, ctypes.c_char_p
    problem = ctypes.POINTER(_Problem)
    native.tk_octf_detect.argtypes = [head, ctypes.c_int64]
    native.tk_octf_open.argtypes = [
        *(ctypes.POINTER(ctypes.c_int32), ctypes.c_int64, head, ctypes.c_int64),
        ctypes.POINTER(ctypes.c_void_p),
    ]
    native.tk_octf_read.argtypes = [handle, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64]
    native.tk_octf_read.restype = ctypes.c_int64
    native.tk_octf_stats.argtypes = [handle, ctypes.POINTER(OctfStats)]
    native.tk_octf_problem.argtypes = [handle, problem]
    native.tk_octf_cut.argtypes = [handle, ctypes.c_int64, problem]
    native.tk_octf_device.argtypes = [handle, ctypes.c_int64, ctypes.POINTER(_Device)]
    native.tk_octf_device.restype = ctypes.c_int64
    native.tk_octf_close.argtypes = [handle]
    for name in ("stats", "problem", "cut", "close"):
        getattr(native, f"tk_octf_{name}").restype = None
    return native


def is_octf(head: bytes) -> bool:
    """Say whether a file that begins with these bytes is of such a trace."""
    return bool(_native().tk_octf_detect(head, len(head)))


class OctfReader(Owned):
    """Reads open descriptors of one trace, of the first behind `head`; use it in a `with` block."""

    free_function = "tk_octf_close"

    def __init__(self, fds: Sequence[int], head: bytes) -> None:
        super().__init__()
        array = (ctypes.c_int32 * len(fds))(*fds)
        opened = ctypes.byref(self._handle)
        if _native().tk_octf_open(array, len(fds), head, len(head), opened):
            message = "the reader of OCTF traces has no memory"
            raise TracekitError(message, hint="close other programs and try again")

    def read(self) -> dict[str, NDArray[np.int64]]:
        """Return the next requests by COLUMNS, of no rows at the end; raise OctfError."""
        import numpy as np

        block = np.empty((len(COLUMNS), BLOCK_ROWS), np.int64)
        places = (ctypes.c_void_p * len(COLUMNS))(*(column.ctypes.data for column in block))
        rows = _native().tk_octf_read(self._handle, places, BLOCK_ROWS)
        if rows < 0:
            problem = _Problem()
            _native().tk_octf_problem(self._handle, ctypes.byref(problem))
            raise OctfError(_place(problem))
        return {name: block[number, :rows] for number, name in enumerate(COLUMNS)}

    def devices(self) -> list[Device]:
        """Return the devices that occurred, in order of appearance."""
        found: list[Device] = []
        device = _Device()
        while len(found) < _native().tk_octf_device(self._handle, len(found), ctypes.byref(device)):
            name = device.name.decode("utf-8", "replace")
            found.append(Device(device.id, device.sectors, name))
        return found

    def stats(self) -> OctfStats:
        """Return what was read so far."""
        stats = OctfStats()
        _native().tk_octf_stats(self._handle, ctypes.byref(stats))
        return stats

    def cut(self, file: int) -> Place | None:
        """Return where input `file` ended within a message, if it did."""
        problem = _Problem()
        _native().tk_octf_cut(self._handle, file, ctypes.byref(problem))
        return _place(problem) if problem.kind else None


def _place(problem: _Problem) -> Place:
    return Place(Problem(problem.kind), problem.file, problem.offset, problem.value)
