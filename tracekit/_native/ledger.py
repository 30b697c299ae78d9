"""What a placement is charged for, counted: `replayer/model/ledger.h` behind numpy arrays."""

from __future__ import annotations

import ctypes
import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit._native import library
from tracekit._native.owned import Owned
from tracekit._native.placement import ROLE_COUNT, NativeTotals, Rows, add_rows, check_status
from tracekit._native.spindle import Disk, NativeDisk, Wide, native_disk, whole
from tracekit.errors import TracekitError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HELD_NONE, HELD_SOME, HELD_ALL = range(3)
PLACEMENTS = 2

_I64 = ctypes.c_int64
_PAIRS = _I64 * 2 * 2


@dataclass(frozen=True)
class Held:
    """A placement: what the kernel needs to know before the requests; see ledger.h."""

    keys: NDArray[np.int64]
    on_nvm: NDArray[np.uint8]  # by block: 1 + the role whose requests find it on NVM, 0: none
    devices: NDArray[np.void]
    held: tuple[int, ...]  # by role: HELD_*
    is_issued: bool
    disks: tuple[Disk, ...]  # whose positions are summed up


@dataclass(frozen=True)
class Counts:
    """Parts of requests by device (base, NVM) and operation (read, write); flushes by HELD_*."""

    apart: tuple[tuple[int, int], tuple[int, int]]
    joined: tuple[tuple[int, int], tuple[int, int]]
    sectors: tuple[tuple[int, int], tuple[int, int]]
    fua: tuple[int, int]
    flushes: tuple[int, int, int]
    position_ps: tuple[int, ...]  # by disk

    @property
    def is_empty(self) -> bool:
        """Whether nothing was charged."""
        return not any((*sum(self.apart + self.joined, ()), *self.flushes))


class _Setup(ctypes.Structure):
    _fields_ = [
        ("keys", ctypes.c_void_p),
        ("on_nvm", ctypes.c_void_p),
        ("devices", ctypes.c_void_p),
        ("disks", ctypes.c_void_p),
        ("block_count", ctypes.c_uint32),
        ("device_count", ctypes.c_uint32),
        ("disk_count", ctypes.c_uint32),
        ("as_issued", ctypes.c_uint32),
        ("held", ctypes.c_uint8 * ROLE_COUNT),
    ]


class _Counts(ctypes.Structure):
    _fields_ = [
        ("apart", _PAIRS),
        ("joined", _PAIRS),
        ("sectors", _PAIRS),
        ("fua", _I64 * 2),
        ("flushes", _I64 * 3),
    ]


@functools.cache
def _functions() -> ctypes.CDLL:
    native = library()
    for name, count in (("new", 2), ("add", 2), ("finish", 1)):
        function = getattr(native, f"tk_ledger_{name}")
        function.restype, function.argtypes = ctypes.c_int, [ctypes.c_void_p] * count
    for name, count in (("restart", 1), ("read", 4), ("free", 1)):
        function = getattr(native, f"tk_ledger_{name}")
        function.restype, function.argtypes = None, [ctypes.c_void_p] * count
    return native


class Ledger(Owned):
    """Counts a trace, or one window after the other; a context manager for one thread at a time."""

    free_function = "tk_ledger_free"

    def __init__(self, placement: Held) -> None:
        self._native = _functions()
        self._disks = (NativeDisk * len(placement.disks))(*map(native_disk, placement.disks))
        self._placement = placement  # the kernel reads its arrays until it is freed
        super().__init__()
        setup = _Setup(
            placement.keys.ctypes.data,
            placement.on_nvm.ctypes.data,
            placement.devices.ctypes.data,
            ctypes.addressof(self._disks),
            len(placement.keys),
            len(placement.devices),
            len(placement.disks),
            int(placement.is_issued),
            (ctypes.c_uint8 * ROLE_COUNT)(*placement.held),
        )
        status = self._native.tk_ledger_new(ctypes.byref(setup), ctypes.byref(self._handle))
        if status:
            raise TracekitError(
                f"the placement model refuses {len(placement.keys)} blocks: {os.strerror(-status)}"
            )

    def add(self, rows: Rows) -> None:
        """Count the next requests; raise InputError that names a request that makes no sense."""
        status = add_rows(self._native.tk_ledger_add, self._handle, rows=rows)
        totals = NativeTotals()
        self._native.tk_ledger_read(self._handle, ctypes.byref(totals), None, None)
        check_status(status, totals)

    def finish(self) -> tuple[Counts, Counts]:
        """Return the counts of the base device alone and of the placement, and begin anew."""
        status = self._native.tk_ledger_finish(self._handle)
        totals, counts = NativeTotals(), (_Counts * PLACEMENTS)()
        disks = len(self._disks)
        sums = (Wide * (PLACEMENTS * disks))()
        self._native.tk_ledger_read(
            self._handle, ctypes.byref(totals), ctypes.addressof(counts), ctypes.addressof(sums)
        )
        check_status(status, totals)
        self._native.tk_ledger_restart(self._handle)
        alone, placed = (
            _counts(counts[which], sums[which * disks : (which + 1) * disks])
            for which in range(PLACEMENTS)
        )
        return alone, placed


def _counts(native: _Counts, sums: list[Wide]) -> Counts:
    apart, joined, sectors = (
        ((pairs[0][0], pairs[0][1]), (pairs[1][0], pairs[1][1]))
        for pairs in (native.apart, native.joined, native.sectors)
    )
    flushes = native.flushes
    return Counts(
        apart=apart,
        joined=joined,
        sectors=sectors,
        fua=(native.fua[0], native.fua[1]),
        flushes=(flushes[0], flushes[1], flushes[2]),
        position_ps=tuple(whole(wide) for wide in sums),
    )
