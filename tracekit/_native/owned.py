"""Native objects that Python owns: made once, freed at the end of a `with` block."""

from __future__ import annotations

import ctypes
from types import TracebackType
from typing import ClassVar, Self

from tracekit._native import library


class Owned:
    """A native object behind `_handle`; a context manager that frees it with `free_function`."""

    free_function: ClassVar[str]

    def __init__(self) -> None:
        self._handle = ctypes.c_void_p()

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Free the native object."""
        getattr(library(), self.free_function)(self._handle)
        self._handle = ctypes.c_void_p()
