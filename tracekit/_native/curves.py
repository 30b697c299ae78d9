"""LRU miss ratio curves, exact and sampled: `replayer/model/` curve.h and shards.h for numpy."""

from __future__ import annotations

import ctypes
import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit._native.handle import MAX_PAGES, ROWS, RUN, U64, Handle, check
from tracekit.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GROUPS = 32
SHARDS_SCALE = 1 << 24


@dataclass(frozen=True)
class ShardsTotals:
    """References of all pages by row; size of the sample; `threshold` is of SHARDS_SCALE."""

    references: tuple[int, ...]
    sampled: int
    pages: int
    threshold: int
    memory_bytes: int


class _ShardsTotals(ctypes.Structure):
    _fields_ = [
        ("references", U64 * ROWS),
        *((name, U64) for name in ("sampled", "pages", "threshold", "bytes")),
    ]


class PageRuns(Handle):
    """Turns accesses (ACCESS) into runs (RUN) over the ranks of ascending page keys."""

    kind = "page_runs"

    def __init__(self, keys: NDArray[np.int64]) -> None:
        if len(keys) > MAX_PAGES:
            raise InputError(
                f"the trace touches {len(keys):,} pages, {MAX_PAGES:,} are the most for an exact"
                " simulation",
                hint="sample with --samples, or simulate larger pages with --page",
            )
        super().__init__(keys.ctypes.data, len(keys))

    def find(self, rows: NDArray[np.void]) -> NDArray[np.void]:
        """Return the runs of the accesses; raise InputError for a page that is not a key."""
        import numpy as np

        parts = (rows["count"].astype(np.int64) + 65534) // 65535
        runs = np.empty(int(parts.sum()), np.dtype(RUN))
        done = U64()
        made = self._native.tk_page_runs_find(
            self._handle,
            rows.ctypes.data,
            len(rows),
            runs.ctypes.data,
            len(runs),
            ctypes.byref(done),
        )
        if made == -errno.ENOENT:
            raise InputError(
                "a request touches a block that the table 'blocks' lacks",
                hint="run: tracekit classify",
            )
        check(made)
        return runs[:made]


class Curve(Handle):
    """Counts, for each size in pages, the references that it is the smallest to hit."""

    kind = "curve"

    def __init__(
        self, page_count: int, sizes: NDArray[np.uint64], *, writes_allocate: bool = True
    ) -> None:
        self._columns = len(sizes) + 2
        super().__init__(page_count, sizes.ctypes.data, len(sizes), int(writes_allocate))

    def add(self, runs: NDArray[np.void]) -> None:
        """Count runs in their order."""
        self._add(runs)

    def read(self) -> NDArray[np.uint64]:
        """Return ROWS rows: by size, then beyond the largest size, then first references."""
        import numpy as np

        counts = np.zeros((ROWS, self._columns), np.uint64)
        self._native.tk_curve_read(self._handle, counts.ctypes.data)
        return counts

    @property
    def memory_bytes(self) -> int:
        """What the tables take."""
        return int(self._native.tk_curve_bytes(self._handle))


class Shards(Handle):
    """The same from a sample: sums by group of pages."""

    kind = "shards"

    def __init__(self, sizes: NDArray[np.uint64], *, threshold: int, page_limit: int = 0) -> None:
        self._columns = len(sizes) + 2
        super().__init__(sizes.ctypes.data, len(sizes), threshold, page_limit)

    def add(self, rows: NDArray[np.void]) -> None:
        """Sample accesses (ACCESS) in their order."""
        self._add(rows)

    def read(self) -> tuple[NDArray[np.float64], ShardsTotals]:
        """Return sums by group, row and column, and the totals."""
        import numpy as np

        sums = np.zeros((GROUPS, ROWS, self._columns))
        totals = _ShardsTotals()
        self._native.tk_shards_read(self._handle, sums.ctypes.data, ctypes.byref(totals))
        return sums, ShardsTotals(
            tuple(totals.references), totals.sampled, totals.pages, totals.threshold, totals.bytes
        )
