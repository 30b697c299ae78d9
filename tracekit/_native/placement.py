"""Elapsed time against NVM capacity: `replayer/model/placement.h` behind numpy arrays."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from tracekit._native import library
from tracekit._native.owned import Owned
from tracekit.errors import InputError, TracekitError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PLACED_ROLES = 3
ROLE_COUNT = 5
CURVES = 2 * PLACED_ROLES + 1
HOTTEST, START, OPTIMAL = range(3)
READ, WRITE, FLUSH, UNCHARGED = range(4)
MAX_POINTS = 65534
BLOCK = [("point", "<u2", (3,)), ("role", "<u2")]
DEVICE = [("first_block", "<i8"), ("blocks", "<i8"), ("first_key", "<i8")]


@dataclass(frozen=True)
class Cost:
    """What a device costs, in picoseconds; pairs are of reads and writes."""

    latency_ps: tuple[int, int]
    sequential_ps: tuple[int, int]
    sector_ps: tuple[int, int]
    fua_ps: int


@dataclass(frozen=True)
class Setup:
    """What the kernel needs to know before the requests; arrays as described in placement.h."""

    keys: NDArray[np.int64]
    blocks: NDArray[np.void]
    devices: NDArray[np.void]
    point_count: int
    is_issued: bool
    base: Cost
    nvm: Cost


@dataclass(frozen=True)
class Rows:
    """Columns of requests in queue order: contiguous arrays of equal length, -1 where unknown."""

    request_id: NDArray[np.int64]
    queue_ns: NDArray[np.int64]
    issue_ns: NDArray[np.int64]
    merged_into: NDArray[np.int64]
    sector: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    device: NDArray[np.int32]
    action: NDArray[np.uint8]
    role: NDArray[np.uint8]
    is_fua: NDArray[np.uint8]
    is_preflush: NDArray[np.uint8]


@dataclass(frozen=True)
class Totals:
    """What was charged, by role, and what was not; see placement.h."""

    base_ps: tuple[int, ...]
    requests: tuple[int, ...]
    flushes: tuple[int, ...]
    uncharged: int
    not_issued: int
    orphan_merges: int
    impossible: int
    missing_blocks: int


_I64 = ctypes.c_int64


class NativeCost(ctypes.Structure):
    """`struct tk_placement_cost`."""

    _fields_ = [
        ("latency_ps", _I64 * 2),
        ("sequential_ps", _I64 * 2),
        ("sector_ps", _I64 * 2),
        ("fua_ps", _I64),
    ]


class NativeSetup(ctypes.Structure):
    """`struct tk_placement_setup`."""

    _fields_ = [
        ("keys", ctypes.c_void_p),
        ("blocks", ctypes.c_void_p),
        ("devices", ctypes.c_void_p),
        ("block_count", ctypes.c_uint32),
        ("device_count", ctypes.c_uint32),
        ("point_count", ctypes.c_uint32),
        ("as_issued", ctypes.c_uint32),
        ("base", NativeCost),
        ("nvm", NativeCost),
    ]


class _Rows(ctypes.Structure):
    _fields_ = [
        *((field.name, ctypes.c_void_p) for field in fields(Rows)),
        ("count", _I64),
    ]


class NativeTotals(ctypes.Structure):
    """`struct tk_placement_totals`."""

    _fields_ = [
        ("base_ps", _I64 * ROLE_COUNT),
        ("requests", _I64 * ROLE_COUNT),
        ("flushes", _I64 * ROLE_COUNT),
        ("uncharged", _I64),
        ("not_issued", _I64),
        ("orphan_merges", _I64),
        ("impossible", _I64),
        ("missing_blocks", _I64),
        ("bad_request_id", _I64),
    ]


@functools.cache
def _functions() -> ctypes.CDLL:
    native = library()
    native.tk_placement_new.restype = ctypes.c_int
    native.tk_placement_new.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    native.tk_placement_add.restype = ctypes.c_int
    native.tk_placement_add.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    native.tk_placement_finish.restype = ctypes.c_int
    native.tk_placement_finish.argtypes = [ctypes.c_void_p]
    native.tk_placement_read.restype = None
    native.tk_placement_read.argtypes = [ctypes.c_void_p] * 3
    native.tk_placement_free.restype = None
    native.tk_placement_free.argtypes = [ctypes.c_void_p]
    return native


def native_cost(cost: Cost) -> NativeCost:
    """Return costs as the kernels take them."""
    pairs = (cost.latency_ps, cost.sequential_ps, cost.sector_ps)
    return NativeCost(*((_I64 * 2)(*pair) for pair in pairs), cost.fua_ps)


def native_setup(setup: Setup) -> NativeSetup:
    """Return a setup as the kernels take it; its arrays must outlive them."""
    return NativeSetup(
        setup.keys.ctypes.data,
        setup.blocks.ctypes.data,
        setup.devices.ctypes.data,
        len(setup.keys),
        len(setup.devices),
        setup.point_count,
        int(setup.is_issued),
        native_cost(setup.base),
        native_cost(setup.nvm),
    )


def add_rows(function: Callable[..., int], handle: ctypes.c_void_p, *, rows: Rows) -> int:
    """Give rows to a kernel's function; return its status."""
    columns = [getattr(rows, field.name).ctypes.data for field in fields(Rows)]
    native_rows = _Rows(*columns, len(rows.request_id))
    return function(handle, ctypes.byref(native_rows))


def totals_of(totals: NativeTotals) -> Totals:
    """Return what a kernel counted."""
    return Totals(
        tuple(totals.base_ps),
        tuple(totals.requests),
        tuple(totals.flushes),
        totals.uncharged,
        totals.not_issued,
        totals.orphan_merges,
        totals.impossible,
        totals.missing_blocks,
    )


def check_status(status: int, totals: NativeTotals) -> None:
    """Raise InputError that names the request which a kernel could not take."""
    if not status:
        return
    reason = {
        -errno.EINVAL: "has an operation, role or device that is not known",
        -errno.EOVERFLOW: "brings the modelled time above 106 days",
        -errno.EEXIST: "appears twice",
    }.get(status)
    if reason is None or totals.bad_request_id < 0:
        raise TracekitError(f"the placement model failed: {os.strerror(-status)}")
    raise InputError(f"request {totals.bad_request_id} {reason}", hint="parse the capture again")


class PlacementKernel(Owned):
    """One pass over a trace; a context manager, used by one thread at a time."""

    free_function = "tk_placement_free"

    def __init__(self, setup: Setup) -> None:
        self._native = _functions()
        self._blocks = setup.blocks  # the kernel reads this array until it is freed
        self._point_count = setup.point_count
        super().__init__()
        native = native_setup(setup)
        status = self._native.tk_placement_new(ctypes.byref(native), ctypes.byref(self._handle))
        if status:
            raise TracekitError(
                f"the placement model refuses {len(setup.keys)} blocks and {setup.point_count}"
                f" capacities: {os.strerror(-status)}"
            )

    def add(self, rows: Rows) -> None:
        """Charge the next requests; raise InputError that names a request that makes no sense."""
        status = add_rows(self._native.tk_placement_add, self._handle, rows=rows)
        check_status(status, self._totals(None))

    def finish(self) -> tuple[Totals, NDArray[np.int64]]:
        """Return the totals and the change of time in ps at each capacity point, by curve."""
        import numpy as np

        status = self._native.tk_placement_finish(self._handle)
        check_status(status, self._totals(None))
        steps_ps = np.zeros((CURVES, self._point_count), np.int64)
        return totals_of(self._totals(steps_ps.ctypes.data)), steps_ps

    def _totals(self, steps: int | None) -> NativeTotals:
        totals = NativeTotals()
        self._native.tk_placement_read(self._handle, ctypes.byref(totals), steps)
        return totals
