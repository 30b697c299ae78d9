"""Access counts of 4 KiB blocks: `replayer/model/hotness.h` behind numpy arrays."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from tracekit._native import library
from tracekit._native.owned import Owned
from tracekit.errors import TracekitError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

READ, WRITE, IGNORED = 0, 1, 2
NO_TIME = -(1 << 63)
ALL_KEYS = (0, (1 << 64) - 1)
MAX_DEVICES = 1 << 16
MIN_BUDGET_BYTES = 1 << 16
RECORD = [
    ("block", "<i8"),
    ("first_ns", "<i8"),
    ("last_ns", "<i8"),
    ("reads", "<u4"),
    ("writes", "<u4"),
    ("device", "<u2"),
    ("role", "u1"),
    ("sectors", "u1"),
    ("unused", "<u4"),
]


@dataclass(frozen=True)
class Requests:
    """Columns of requests in queue order, as contiguous numpy arrays of equal length."""

    sector: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    time_ns: NDArray[np.int64]  # NO_TIME where a request has none
    device: NDArray[np.uint16]
    operation: NDArray[np.uint8]  # READ, WRITE or IGNORED
    role: NDArray[np.uint8]


@dataclass(frozen=True)
class Totals:
    """What one range of blocks came to."""

    blocks: int
    touches: int
    mixed_blocks: int  # touched by requests of several roles
    requests: int  # reads and writes that counted, whatever the range
    impossible: int  # reads and writes with a place or length that no disk has
    memory_bytes: int
    clock_ns: int


class _Batch(ctypes.Structure):
    _fields_ = [
        ("count", ctypes.c_uint64),
        ("sector", ctypes.c_void_p),
        ("length_bytes", ctypes.c_void_p),
        ("time_ns", ctypes.c_void_p),
        ("device", ctypes.c_void_p),
        ("operation", ctypes.c_void_p),
        ("role", ctypes.c_void_p),
    ]


class _Totals(ctypes.Structure):
    _fields_ = [
        ("blocks", ctypes.c_uint64),
        ("touches", ctypes.c_uint64),
        ("mixed_blocks", ctypes.c_uint64),
        ("requests", ctypes.c_uint64),
        ("impossible", ctypes.c_uint64),
        ("memory_bytes", ctypes.c_uint64),
        ("clock_ns", ctypes.c_int64),
    ]


@functools.cache
def _functions() -> ctypes.CDLL:
    native = library()
    u64, pointer = ctypes.c_uint64, ctypes.c_void_p
    declared: dict[str, tuple[Any, list[Any]]] = {
        "new": (ctypes.c_int, [u64, ctypes.c_int64, ctypes.c_uint32, ctypes.c_uint32, pointer]),
        "free": (None, [pointer]),
        "range": (None, [pointer, u64, u64]),
        "key": (u64, [ctypes.c_uint16, u64]),
        "add": (ctypes.c_int, [pointer, pointer, pointer]),
        "totals": (None, [pointer, pointer]),
        "windows": (None, [pointer, pointer, pointer]),
        "cuts": (u64, [pointer, u64, pointer]),
        "export": (u64, [pointer, pointer, u64]),
    }
    for name, (result, arguments) in declared.items():
        function = getattr(native, f"tk_hotness_{name}")
        function.restype, function.argtypes = result, arguments
    return native


class BudgetUsedUpError(Exception):
    """The blocks of the range do not fit into the budget: cut the range and start it again.

    `done` is the number of requests of the batch that were counted.
    """

    def __init__(self, done: int) -> None:
        super().__init__(done)
        self.done = done


class Hotness(Owned):
    """One counter of block accesses; a context manager, used by one thread at a time."""

    free_function = "tk_hotness_free"

    def __init__(
        self, budget_bytes: int, *, window_ns: int, window_count: int, role_count: int
    ) -> None:
        self._shape = (window_count, role_count)
        self._native = _functions()
        super().__init__()
        status = self._native.tk_hotness_new(
            budget_bytes, window_ns, window_count, role_count, ctypes.byref(self._handle)
        )
        if status:
            raise TracekitError(
                f"cannot count block accesses in {budget_bytes} bytes and {window_count} windows"
                f" of {window_ns} ns: {os.strerror(-status)}",
                hint=f"give a budget of at least {MIN_BUDGET_BYTES} bytes and a longer window",
            )

    def start(self, first_key: int, last_key: int) -> None:
        """Forget everything and count the blocks of this range of keys, its end included."""
        self._native.tk_hotness_range(self._handle, first_key, last_key)

    def add(self, requests: Requests) -> None:
        """Count a batch; raise BudgetUsedUpError when the range does not fit."""
        import numpy as np

        # The native side trusts its pointers, so the arrays are made what it expects of them.
        columns: list[NDArray[Any]] = [
            np.ascontiguousarray(requests.sector, np.int64),
            np.ascontiguousarray(requests.length_bytes, np.int64),
            np.ascontiguousarray(requests.time_ns, np.int64),
            np.ascontiguousarray(requests.device, np.uint16),
            np.ascontiguousarray(requests.operation, np.uint8),
            np.ascontiguousarray(requests.role, np.uint8),
        ]
        if len({len(column) for column in columns}) != 1:
            raise ValueError("the columns of a batch differ in length")
        batch = _Batch(len(columns[0]), *(column.ctypes.data for column in columns))
        done = ctypes.c_uint64()
        status = self._native.tk_hotness_add(self._handle, ctypes.byref(batch), ctypes.byref(done))
        if status == -errno.ENOSPC:
            raise BudgetUsedUpError(done.value)
        if status:
            raise TracekitError(f"counting block accesses failed: {os.strerror(-status)}")

    def totals(self) -> Totals:
        """Return the counts of the range so far."""
        out = _Totals()
        self._native.tk_hotness_totals(self._handle, ctypes.byref(out))
        return Totals(*(int(getattr(out, field.name)) for field in fields(Totals)))

    def windows(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return distinct and never before touched blocks, as arrays by window and role."""
        import numpy as np

        distinct = np.empty(self._shape, np.uint64)
        fresh = np.empty(self._shape, np.uint64)
        self._native.tk_hotness_windows(self._handle, distinct.ctypes.data, fresh.ctypes.data)
        return distinct, fresh

    def cuts(self, count: int) -> list[int]:
        """Return first keys that part the blocks found so far into `count` ranges; ends adding."""
        keys = (ctypes.c_uint64 * max(1, count - 1))()
        written = self._native.tk_hotness_cuts(self._handle, count, keys)
        return list(keys[:written])

    def export(self, capacity: int = 1 << 16) -> Iterator[NDArray[np.void]]:
        """Yield arrays of RECORD in the order of device and block; ends adding.

        Each array is valid until the next one.
        """
        import numpy as np

        records = np.empty(capacity, np.dtype(RECORD))
        while True:
            count = self._native.tk_hotness_export(self._handle, records.ctypes.data, capacity)
            if not count:
                return
            yield records[:count]


def key_of(device: int, block: int) -> int:
    """Return the key of a device's block, rounded down to the 64 blocks that stay together."""
    return int(_functions().tk_hotness_key(device, block))
