"""Static and dynamic tiering: `replayer/model/tiering.h` and `migration.h` behind numpy."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracekit._native import library
from tracekit._native.owned import Owned
from tracekit.errors import InputError, TracekitError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MIN_TIERS, MAX_TIERS = 2, 8
MAX_SUMMED_TIERS = 4  # TIERING_MAX_SUMMED: with more, each mix is a loop over the extents
SHARE = [("extents", "<i8"), ("reads", "<i8"), ("writes", "<i8")]
# Values of a tier in a record: traffic, then extents out of it and into it, up and down.
READS, WRITES, PROMOTED_OUT, PROMOTED_IN, DEMOTED_OUT, DEMOTED_IN = range(6)
TIER_VALUES = 6


@dataclass(frozen=True)
class Windows:
    """Traffic by window: items first_item[w] to first_item[w + 1] - 1, ascending by extent."""

    first_item: NDArray[np.uint64]
    extent: NDArray[np.uint32]
    reads: NDArray[np.int64]
    writes: NDArray[np.int64]


class _Tier(ctypes.Structure):
    _fields_ = [("read_us", ctypes.c_double), ("write_us", ctypes.c_double)]


class _Setup(ctypes.Structure):
    _fields_ = [
        ("tiers", ctypes.c_void_p),
        ("first_item", ctypes.c_void_p),
        ("extent", ctypes.c_void_p),
        ("reads", ctypes.c_void_p),
        ("writes", ctypes.c_void_p),
        ("tier_count", ctypes.c_uint32),
        ("extent_count", ctypes.c_uint32),
        ("window_count", ctypes.c_uint32),
        ("window_moves", ctypes.c_uint64),
    ]


_POINTER, _U32, _U64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "tk_tiering_new": (
        ctypes.c_int,
        [_POINTER, _U32, _POINTER, _POINTER, _U32, _POINTER],
    ),
    "tk_tiering_mixes": (None, [_POINTER, _POINTER, _U64, _POINTER]),
    "tk_tiering_place": (None, [_POINTER, _POINTER, _POINTER]),
    "tk_tiering_free": (None, [_POINTER]),
    "tk_migration_new": (ctypes.c_int, [_POINTER, _POINTER]),
    "tk_migration_run": (ctypes.c_int, [_POINTER, _POINTER, _U64, _POINTER, _POINTER]),
    "tk_migration_free": (None, [_POINTER]),
}


@functools.cache
def _functions() -> ctypes.CDLL:
    native = library()
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(native, name)
        function.restype, function.argtypes = result, arguments
    return native


def _tiers(latencies_us: NDArray[np.float64]) -> ctypes.Array[_Tier]:
    pairs = [_Tier(float(read), float(write)) for read, write in latencies_us]
    return (_Tier * len(pairs))(*pairs)


def _check(status: int) -> None:
    if status == -errno.ERANGE:
        raise InputError("the trace's traffic does not fit 64 bits", hint="parse it again")
    if status:
        raise TracekitError(f"the tiering model failed: {os.strerror(-status)}")


def _exact(values: NDArray[Any], kind: str) -> NDArray[Any]:
    import numpy as np

    return np.ascontiguousarray(values, kind)


class Tiering(Owned):
    """The extents of a trace in the order of placement, for one set of tiers; a context manager.

    `latencies_us` has a row of read and write latency for each tier, the slowest tier last.
    """

    free_function = "tk_tiering_free"

    def __init__(
        self,
        latencies_us: NDArray[np.float64],
        reads: NDArray[np.int64],
        *,
        writes: NDArray[np.int64],
    ) -> None:
        self._native = _functions()
        self._traffic = (_exact(reads, "<i8"), _exact(writes, "<i8"))  # read until it is freed
        self._tier_count = len(latencies_us)
        super().__init__()
        places = [array.ctypes.data for array in self._traffic]
        _check(
            self._native.tk_tiering_new(
                _tiers(latencies_us),
                self._tier_count,
                *places,
                len(reads),
                ctypes.byref(self._handle),
            )
        )

    def mixes(self, places: NDArray[np.uint32]) -> NDArray[np.void]:
        """Return what each tier gets (SHARE), for each row of capacities of the faster tiers."""
        import numpy as np

        exact = _exact(places, "<u4")
        shares = np.empty((len(exact), self._tier_count), SHARE)
        self._native.tk_tiering_mixes(
            self._handle, exact.ctypes.data, len(exact), shares.ctypes.data
        )
        return shares

    def place(self, places: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """Return the tier of each extent for one row of capacities, by Algorithm 1 itself."""
        import numpy as np

        exact = _exact(places, "<u4")
        tiers = np.empty(len(self._traffic[0]), np.uint8)
        self._native.tk_tiering_place(self._handle, exact.ctypes.data, tiers.ctypes.data)
        return tiers


class Migration(Owned):
    """A trace's windows, for one set of tiers and a number of moves a window; a context manager."""

    free_function = "tk_migration_free"

    def __init__(
        self,
        latencies_us: NDArray[np.float64],
        windows: Windows,
        *,
        extent_count: int,
        window_moves: int,
    ) -> None:
        self._native = _functions()
        self._tier_count = len(latencies_us)
        self._window_count = len(windows.first_item) - 1
        self._arrays = [
            _exact(windows.first_item, "<u8"),
            _exact(windows.extent, "<u4"),
            _exact(windows.reads, "<i8"),
            _exact(windows.writes, "<i8"),
        ]
        tiers = _tiers(latencies_us)
        setup = _Setup(
            ctypes.addressof(tiers),
            *(array.ctypes.data for array in self._arrays),
            self._tier_count,
            extent_count,
            self._window_count,
            window_moves,
        )
        super().__init__()
        _check(self._native.tk_migration_new(ctypes.byref(setup), ctypes.byref(self._handle)))

    def totals(self, places: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return one record a mix: TIER_VALUES for each tier, then promotions and demotions.

        `places` has a row of capacities of all tiers, in extents, for each mix.
        """
        return self._run(places, windows=None)

    def windows(self, places: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return one such record a window for a single mix."""
        import numpy as np

        records = np.empty((self._window_count, self._values), np.int64)
        self._run(places[np.newaxis, :], windows=records)
        return records

    @property
    def _values(self) -> int:
        return TIER_VALUES * self._tier_count + 2

    def _run(
        self, places: NDArray[np.uint32], *, windows: NDArray[np.int64] | None
    ) -> NDArray[np.int64]:
        import numpy as np

        exact = _exact(places, "<u4")
        totals = np.empty((len(exact), self._values), np.int64)
        _check(
            self._native.tk_migration_run(
                self._handle,
                exact.ctypes.data,
                len(exact),
                totals.ctypes.data,
                None if windows is None else windows.ctypes.data,
            )
        )
        return totals
