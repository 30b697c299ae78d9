"""What requests do with pages, by stretches of them: `replayer/model/paging.h` for numpy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit._native.library import Owned, columns_for, constant, dtype_of, struct

CHUNK_PAGES = constant("TK_PAGING_CHUNK_PAGES")
DEVICE_SHIFT = constant("TK_PAGING_DEVICE_SHIFT")
FRESH, KNOWN, RECLAIMED, OTHER = (
    constant(f"TK_PAGING_{name}") for name in ("FRESH", "KNOWN", "RECLAIMED", "OTHER")
)
CHUNK = dtype_of("struct tk_paging_chunk")


@dataclass(frozen=True)
class Touches:
    """Reads and writes in queue order, and which of the writes can be of reclaim."""

    device: NDArray[np.int64]
    sector: NDArray[np.int64]
    end: NDArray[np.int64]
    is_write: NDArray[np.bool_]
    is_reclaim: NDArray[np.bool_]


class Paging(Owned):
    """Counts of pages by chunk of a device."""

    kind = "tk_paging"
    failure = "looking for swap failed"

    def add(self, touches: Touches) -> None:
        """Take requests that follow those taken before."""
        columns = struct("tk_paging_touches", **columns_for("tk_paging_touches", touches))
        self._check(self._call("add", columns, len(touches.sector)))

    def chunks(self) -> NDArray[np.void]:
        """Return what was counted as an array of CHUNK by key; ends adding."""
        found = np.zeros(self._call("count"), CHUNK)
        self._call("read", found)
        return found
