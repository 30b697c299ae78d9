"""What the native cache simulations share: their arguments and their handles."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import TYPE_CHECKING, Any, ClassVar

from tracekit._native import library
from tracekit._native.owned import Owned
from tracekit.errors import TracekitError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROLE_COUNT = 5
ROWS = 2 * ROLE_COUNT  # role * 2 + is_write
MAX_PAGES = (1 << 30) - 1
RUN = [("first", "<u4"), ("count", "<u2"), ("is_write", "u1"), ("role", "u1")]
ACCESS = [
    ("key", "<i8"),
    ("count", "<u4"),
    ("is_write", "u1"),
    ("role", "u1"),
    ("unused", "<u2"),
]

U32 = ctypes.c_uint32
U64 = ctypes.c_uint64
_POINTER = ctypes.c_void_p


@functools.cache
def functions() -> ctypes.CDLL:
    """Return the library with the types of the functions set."""
    native = library()
    native.tk_page_runs_find.restype = ctypes.c_int64
    native.tk_accesses_make.restype = ctypes.c_int64
    native.tk_accesses_make.argtypes = [_POINTER, U64, _POINTER, _POINTER]
    native.tk_curve_bytes.restype = U64
    for kind in ("page_runs", "curve", "shards", "cache", "two_level", "buffer"):
        release = getattr(native, f"tk_{kind}_free")
        release.argtypes, release.restype = [_POINTER], None
    native.tk_page_runs_new.argtypes = [_POINTER, U32, _POINTER]
    native.tk_page_runs_find.argtypes = [_POINTER, _POINTER, U64, _POINTER, U64, _POINTER]
    native.tk_curve_new.argtypes = [U32, _POINTER, U32, ctypes.c_int, _POINTER]
    native.tk_curve_bytes.argtypes = [_POINTER]
    native.tk_shards_new.argtypes = [_POINTER, U32, U32, U32, _POINTER]
    native.tk_cache_next_uses.argtypes = [_POINTER, _POINTER, U64, _POINTER]
    for kind in ("cache", "two_level", "buffer"):
        getattr(native, f"tk_{kind}_new").argtypes = [_POINTER, _POINTER]
    for kind in ("curve", "shards", "two_level", "buffer"):
        getattr(native, f"tk_{kind}_add").argtypes = [_POINTER, _POINTER, U64]
    native.tk_cache_add.argtypes = [_POINTER, _POINTER, U64, _POINTER]
    for kind in ("curve", "cache", "two_level", "buffer"):
        read = getattr(native, f"tk_{kind}_read")
        read.argtypes, read.restype = [_POINTER, _POINTER], None
    native.tk_shards_read.argtypes = [_POINTER, _POINTER, _POINTER]
    native.tk_shards_read.restype = None
    return native


def check(status: int) -> None:
    """Raise TracekitError for a negative errno."""
    if status < 0:
        raise TracekitError(f"the cache simulation failed: {os.strerror(-status)}")


class Handle(Owned):
    """A native cache simulation, named by its `kind` in the library's functions."""

    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """Name the function that frees it."""
        cls.free_function = f"tk_{cls.kind}_free"

    def __init__(self, *arguments: Any) -> None:
        super().__init__()
        self._native = functions()
        make = getattr(self._native, f"tk_{self.kind}_new")
        check(make(*arguments, ctypes.byref(self._handle)))

    def _add(self, rows: NDArray[np.void], *more: Any) -> None:
        add = getattr(self._native, f"tk_{self.kind}_add")
        check(add(self._handle, rows.ctypes.data, len(rows), *more))
