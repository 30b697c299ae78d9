"""Which pages requests used before: `replayer/workload/working_set.h` for numpy."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import TYPE_CHECKING

from tracekit._native import library
from tracekit._native.owned import Owned
from tracekit._native.workload import MOST_PLACES
from tracekit.errors import TracekitError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PAGE_SECTORS = 8
RUN = [("first_sector", "<u8"), ("sectors", "<u8")]


@functools.cache
def _functions() -> ctypes.CDLL:
    native = library()
    size, pointer = ctypes.c_uint64, ctypes.c_void_p
    native.tk_working_set_new.argtypes = [size, size, pointer]
    native.tk_working_set_see.argtypes = [pointer, pointer, size, pointer]
    native.tk_working_set_free.argtypes = [pointer]
    native.tk_working_set_free.restype = None
    return native


class Territory(Owned):
    """The pages of so many sectors, in the order of their last use."""

    free_function = "tk_working_set_free"

    def __init__(self, sectors: int) -> None:
        """Raise TracekitError when there is no memory."""
        self._native = _functions()
        super().__init__()
        status = self._native.tk_working_set_new(sectors, MOST_PLACES, ctypes.byref(self._handle))
        self._check(status)

    def see(self, runs: NDArray[np.void]) -> NDArray[np.uint32]:
        """Return how many pages back the first one of each request (RUN) was used, 0: never."""
        import numpy as np

        back = np.zeros(len(runs), np.uint32)
        self._check(
            self._native.tk_working_set_see(
                self._handle, runs.ctypes.data, len(runs), back.ctypes.data
            )
        )
        return back

    @staticmethod
    def _check(status: int) -> None:
        if status:
            raise TracekitError(f"used pages cannot be told: {os.strerror(-status)}")
