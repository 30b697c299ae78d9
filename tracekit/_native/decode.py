"""The native decoder of block traces: `replayer/read/decode.h` behind an Arrow reader."""

from __future__ import annotations

import ctypes
import errno
import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from tracekit._native import library, stopped
from tracekit._native.owned import Owned
from tracekit.errors import TracekitError

# Letters of blkparse, in the order of the native enum; the first has no action.
ACTIONS = (
    *("", "Q", "M", "F", "G", "S", "R", "D", "C", "P", "U", "UT", "I", "X", "B", "A"),
    *("abort", "driver", "ZP", "ZU"),
)
NOTIFIES = ("process", "timestamp", "message")
UNMATCHED = (
    *("queue", "getrq", "insert", "issue", "complete"),
    *("merge", "requeue", "split", "remap"),
)
COUNTED = ("read", "write", "discard", "flush")
"""What the kernel counts of a disk; `enum counted`."""


class Problem(IntEnum):
    """Why a capture cannot be decoded; `enum problem_kind`."""

    NONE = 0
    NOT_A_TRACE = 1
    BAD_MAGIC = 2
    BAD_VERSION = 3
    CUT_HEADER = 4
    CUT_PAYLOAD = 5
    BACKWARDS = 6
    VERSIONS = 7
    READ = 8
    MEMORY = 9


class DecodeStats(ctypes.Structure):
    """What was read; `struct tk_decode_stats`, where each field is explained."""

    _fields_ = [
        ("bytes", ctypes.c_int64),
        ("records", ctypes.c_int64),
        ("rows", ctypes.c_int64),
        ("actions", ctypes.c_int64 * len(ACTIONS)),
        ("notifies", ctypes.c_int64 * len(NOTIFIES)),
        ("unmatched", ctypes.c_int64 * len(UNMATCHED)),
        ("unknown", ctypes.c_int64),
        ("passthrough", ctypes.c_int64),
        ("device_flushes", ctypes.c_int64),
        ("requeued_remainders", ctypes.c_int64),
        ("evicted", ctypes.c_int64),
        ("sequence_gaps", ctypes.c_int64),
        ("lost_records", ctypes.c_int64),
        ("repeated_records", ctypes.c_int64),
        ("numbered_records", ctypes.c_int64),
        ("reordered_records", ctypes.c_int64),
        ("version", ctypes.c_int64),
        ("swapped_files", ctypes.c_int64),
        ("base_ns", ctypes.c_int64),
        ("last_ns", ctypes.c_int64),
        ("wall_ns", ctypes.c_int64),
        ("has_wall", ctypes.c_int64),
        ("is_wall_of_start", ctypes.c_int64),
        ("lines", ctypes.c_int64),
        ("passed_lines", ctypes.c_int64),
        ("bad_lines", ctypes.c_int64),
        ("told_lost", ctypes.c_int64),
        ("is_perf", ctypes.c_int64),
        ("has_tracer", ctypes.c_int64),
        ("has_nanoseconds", ctypes.c_int64),
    ]


class Text(IntEnum):
    """The texts of events that the decoder reads; `enum text_format`."""

    NONE = 0
    BLKPARSE = 1
    FORM = 2
    TRACER = 3
    KERNEL = 4


class _Problem(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("file", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("value", ctypes.c_uint64),
        ("other", ctypes.c_int64),
    ]


class _Stream(ctypes.Structure):
    """ArrowArrayStream."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("schema", "next", "error", "release", "data")]


@dataclass(frozen=True)
class Completed:
    """Requests of a device that completed between two readings of its counters, by COUNTED."""

    certain: Counter[str] = field(default_factory=Counter)
    perhaps: Counter[str] = field(default_factory=Counter)
    """Completed while a reading was made, or were seen in part."""


class Place(stopped.Place[Problem]):
    """Where and why a capture cannot be read on."""


class DecodeError(stopped.StoppedError[Place]):
    """The decoder stopped."""


@functools.cache
def _native() -> ctypes.CDLL:
    native = library()
    handle, text = ctypes.c_void_p, ctypes.c_char_p
    fds = ctypes.POINTER(ctypes.c_int32)
    out = ctypes.POINTER(ctypes.c_void_p)
    native.tk_decode_open.argtypes = [fds, ctypes.c_int64, ctypes.c_int32, out]
    native.tk_decode_name_process.argtypes = [handle, ctypes.c_uint32, text]
    native.tk_decode_name_device.argtypes = [handle, ctypes.c_uint32, ctypes.c_uint32, text]
    native.tk_decode_stream.argtypes = [handle, ctypes.POINTER(_Stream)]
    native.tk_decode_stats.argtypes = [handle, ctypes.POINTER(DecodeStats)]
    native.tk_decode_problem.argtypes = [handle, ctypes.POINTER(_Problem)]
    native.tk_decode_cut.argtypes = [handle, ctypes.c_int64, ctypes.POINTER(_Problem)]
    native.tk_decode_devices.argtypes = [handle, ctypes.c_void_p, ctypes.c_int64]
    native.tk_decode_devices.restype = ctypes.c_int64
    numbers = ctypes.POINTER(ctypes.c_int64)
    native.tk_decode_watch.argtypes = [handle, numbers]
    native.tk_decode_completed.argtypes = [handle, ctypes.c_int64, numbers, numbers]
    native.tk_decode_completed.restype = ctypes.c_int64
    native.tk_decode_detect_text.argtypes = [text, ctypes.c_int64]
    native.tk_decode_detect_text.restype = ctypes.c_int64
    native.tk_decode_set_text.argtypes = [
        *(handle, ctypes.c_int64, ctypes.c_int64, text, text, ctypes.c_int64)
    ]
    native.tk_decode_bad_line.argtypes = [
        *(handle, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(text))
    ]
    native.tk_decode_bad_line.restype = ctypes.c_int64
    native.tk_decode_close.argtypes = [handle]
    for name in ("stats", "problem", "cut", "watch", "close"):
        getattr(native, f"tk_decode_{name}").restype = None
    return native


def detect_text(head: bytes) -> Text:
    """Return which of the texts of events a file is by its first bytes."""
    return Text(_native().tk_decode_detect_text(head, len(head)))


def _check(status: int) -> None:
    if status:
        raise TracekitError("the decoder has no memory", hint="close other programs and try again")


class Decoder(Owned):
    """Decodes open descriptors of one trace; use it in a `with` block and in one thread at a time.

    With `keeps_whole`, an input that cannot be read on ends there, see `cut`.
    """

    free_function = "tk_decode_close"

    def __init__(self, fds: Sequence[int], *, keeps_whole: bool = False) -> None:
        super().__init__()
        array = (ctypes.c_int32 * len(fds))(*fds)
        opened = ctypes.byref(self._handle)
        _check(_native().tk_decode_open(array, len(fds), int(keeps_whole), opened))

    def name_process(self, pid: int, name: str) -> None:
        """Name a process that the trace itself may not name."""
        _check(_native().tk_decode_name_process(self._handle, pid, name.encode()))

    def name_device(self, number: tuple[int, int], name: str) -> None:
        """Name the device of this major and minor; others are called `major,minor`."""
        major, minor = number
        _check(_native().tk_decode_name_device(self._handle, major, minor, name.encode()))

    def set_text(self, text: Text, head: bytes, *, form: str | None = None) -> None:
        """Read the one input as text, of which `head` was taken from its descriptor already.

        With Text.NONE it has binary records.
        `form` is the format of `blkparse -f`; raise ValueError when it cannot be read by it.
        """
        shape = form.encode() if form is not None else None
        status = _native().tk_decode_set_text(self._handle, 0, text, shape, head, len(head))
        if status == -errno.ENODATA:
            raise ValueError("it lacks one of %T, %a, %d, %S and %n or %N")
        if status == -errno.EINVAL:
            raise ValueError("it has a field that blkparse does not know, or is too long")
        _check(status)

    def bad_lines(self) -> list[tuple[int, str]]:
        """Return number and beginning of the first wrong lines of the text."""
        found: list[tuple[int, str]] = []
        shown = ctypes.c_char_p()
        while number := _native().tk_decode_bad_line(
            self._handle, 0, len(found), ctypes.byref(shown)
        ):
            found.append((number, (shown.value or b"").decode("utf-8", "replace")))
        return found

    def batches(self) -> Iterator[Any]:
        """Yield record batches of `requests` in queue order; raise DecodeError."""
        import pyarrow as pa

        stream = _Stream()
        _check(_native().tk_decode_stream(self._handle, ctypes.byref(stream)))
        reader = pa.RecordBatchReader._import_from_c(ctypes.addressof(stream))
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except (pa.ArrowException, OSError):
                raise DecodeError(self._problem()) from None
            yield batch

    def devices(self) -> list[tuple[int, int]]:
        """Return major and minor of the devices that occurred, in order of appearance."""
        count = _native().tk_decode_devices(self._handle, None, 0)
        numbers = (ctypes.c_uint32 * count)()
        _native().tk_decode_devices(self._handle, numbers, count)
        return [(number >> 20, number & 0xFFFFF) for number in numbers]

    def watch(self, readings_ns: tuple[int, int, int, int]) -> None:
        """Have completions counted between two readings of the kernel's counters.

        Given are first and last possible time of either, by the clock of the records.
        """
        _native().tk_decode_watch(self._handle, (ctypes.c_int64 * 4)(*readings_ns))

    def completed(self) -> list[Completed]:
        """Return what completed between the readings, for each of `devices`."""
        found: list[Completed] = []
        certain, perhaps = ((ctypes.c_int64 * len(COUNTED))() for _ in range(2))
        while _native().tk_decode_completed(self._handle, len(found), certain, perhaps):
            both = (Counter(dict(zip(COUNTED, one, strict=True))) for one in (certain, perhaps))
            found.append(Completed(*both))
        return found

    def stats(self) -> DecodeStats:
        """Return what was read so far."""
        stats = DecodeStats()
        _native().tk_decode_stats(self._handle, ctypes.byref(stats))
        return stats

    def cut(self, file: int) -> Place | None:
        """Return where input `file` was cut because it could not be read on."""
        problem = _Problem()
        _native().tk_decode_cut(self._handle, file, ctypes.byref(problem))
        return _place(problem) if problem.kind else None

    def _problem(self) -> Place:
        problem = _Problem()
        _native().tk_decode_problem(self._handle, ctypes.byref(problem))
        return _place(problem)


def _place(problem: _Problem) -> Place:
    kind = Problem(problem.kind)
    return Place(kind, problem.file, problem.offset, problem.value, problem.other)
