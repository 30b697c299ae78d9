"""Row buffers of a memory: `replayer/model/buffer.h` for numpy."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from tracekit._native.handle import ROWS, U32, Handle

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

MOST_BUFFERS = 1024
SECTOR_BYTES = 512  # keys and counts of its accesses are in sectors


class _Setup(ctypes.Structure):
    _fields_ = [
        *((name, U32) for name in ("row_shift", "line_shift", "count", "unused")),
        ("buffers", ctypes.POINTER(U32)),
    ]


class RowBuffers(Handle):
    """Counts the hits of ascending numbers of row buffers; sizes in bytes, powers of two."""

    kind = "buffer"

    def __init__(self, row_bytes: int, line_bytes: int, buffers: Sequence[int]) -> None:
        self._count = len(buffers)
        setup = _Setup(
            row_bytes.bit_length() - 1,
            line_bytes.bit_length() - 1,
            self._count,
            0,
            (U32 * self._count)(*buffers),
        )
        super().__init__(ctypes.byref(setup))

    def add(self, rows: NDArray[np.void]) -> None:
        """Count accesses (ACCESS), their keys and counts in sectors, in their order."""
        self._add(rows)

    def read(self) -> NDArray[np.uint64]:
        """Return ROWS rows: accesses, then LRU hits and banked hits by number of buffers."""
        import numpy as np

        counts = np.zeros((ROWS, 1 + 2 * self._count), np.uint64)
        self._native.tk_buffer_read(self._handle, counts.ctypes.data)
        return counts
