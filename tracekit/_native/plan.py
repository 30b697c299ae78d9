"""Sums over the records of a plan: `replayer/workload/tally.h` for numpy."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import TYPE_CHECKING

from tracekit._native import library
from tracekit.errors import TracekitError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@functools.cache
def _function() -> ctypes.CDLL:
    native = library()
    sizes = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint32
    native.tk_plan_tally.argtypes = [ctypes.c_void_p, *sizes, ctypes.POINTER(ctypes.c_uint64)]
    return native


def tally(records: NDArray[np.void], targets: NDArray[np.void], *, most_sectors: int) -> int:
    """Add records (RECORD) to a table of targets (TARGET); return the longest read or write.

    That is in sectors and at least `most_sectors`. Raise TracekitError for a record whose target or
    operation there is not.
    """
    most = ctypes.c_uint64(most_sectors)
    status = _function().tk_plan_tally(
        records.ctypes.data, len(records), targets.ctypes.data, len(targets), ctypes.byref(most)
    )
    if status:
        raise TracekitError(f"a plan's records cannot be counted: {os.strerror(-status)}")
    return most.value
