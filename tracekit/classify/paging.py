"""Swap by its invariants: no page is read that was not written, and reclaim alone writes.

The page cache is written by writeback threads or, synchronously, by who waits for it; only reclaim
writes pages asynchronously in whatever process it runs, as under a memory limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit._native.library import Owned, columns_for, constant, dtype_of, struct
from tracekit.units import PAGE_BYTES, SECTOR_BYTES

CHUNK_PAGES = constant("TK_PAGING_CHUNK_PAGES")
DEVICE_SHIFT = constant("TK_PAGING_DEVICE_SHIFT")
FRESH, KNOWN, RECLAIMED, OTHER = (
    constant(f"TK_PAGING_{name}") for name in ("FRESH", "KNOWN", "RECLAIMED", "OTHER")
)
CHUNK = dtype_of("struct tk_paging_chunk")
CHUNK_SECTORS = CHUNK_PAGES * PAGE_BYTES // SECTOR_BYTES
GAP_CHUNKS = 8
"""Chunks without a request that an area may have between its requests."""
ENOUGH_PAGES = 64


@dataclass(frozen=True)
class Touches:
    """Reads and writes in queue order, and which of the writes can be of reclaim."""

    device: NDArray[np.int64]
    sector: NDArray[np.int64]
    end: NDArray[np.int64]
    is_write: NDArray[np.bool_]
    is_reclaim: NDArray[np.bool_]


@dataclass(frozen=True)
class SwapArea:
    """Where swap was found, in pages, and what was done there."""

    device: int
    first_sector: int
    end_sector: int
    read_pages: int
    written_pages: int
    fresh_pages: int
    """Read before they were written."""


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

    def areas(self, *, allows_fresh: bool = False) -> Iterator[SwapArea]:
        """Yield the areas in which nothing but swap is done.

        `allows_fresh`: pages may be read first, as on a host that has swapped before the trace.
        """
        found = self.chunks()
        if not len(found):
            return
        chunks, counts = found["key"].astype(np.int64), found["counts"].astype(np.int64)
        is_swap = (counts[:, RECLAIMED] > 0) & (counts[:, OTHER] == 0)
        is_strict = is_swap & (counts[:, FRESH] == 0)
        if not allows_fresh:
            yield from _areas(chunks, counts, is_strict)
            return
        # What is only read between two such places belongs to them.
        is_swap |= _is_between(chunks, is_swap, (counts[:, [RECLAIMED, OTHER]] == 0).all(axis=1))
        taken = np.zeros(len(chunks), bool)
        for first, last in _runs(chunks, is_swap):
            totals = counts[first:last].sum(axis=0)
            if totals[FRESH] <= totals[RECLAIMED] and _is_enough(totals):
                taken[first:last] = True
        yield from _areas(chunks, counts, taken | is_strict)


def _is_between(
    chunks: NDArray[np.int64], is_swap: NDArray[np.bool_], is_read: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Say which chunks, only read, have swap a few chunks before and behind them."""
    places = np.flatnonzero(is_swap)
    if not len(places):
        return np.zeros(len(chunks), bool)
    behind = np.searchsorted(places, np.arange(len(chunks)))
    before = places[np.maximum(behind - 1, 0)]
    after = places[np.minimum(behind, len(places) - 1)]
    is_near = (chunks - chunks[before] <= GAP_CHUNKS) & (chunks[after] - chunks <= GAP_CHUNKS)
    found: NDArray[np.bool_] = (
        is_read & is_near & (chunks[before] < chunks) & (chunks < chunks[after])
    )
    return found


def _runs(chunks: NDArray[np.int64], is_in: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield where chunks go on that are all in, with a few without a request between them."""
    if not len(chunks):
        return
    is_start = np.concatenate(([True], np.diff(chunks) > GAP_CHUNKS))
    is_start[1:] |= is_in[1:] != is_in[:-1]
    starts = np.flatnonzero(is_start).tolist()
    for first, last in zip(starts, [*starts[1:], len(chunks)], strict=True):
        if is_in[first]:
            yield first, last


def _is_enough(totals: NDArray[np.int64]) -> bool:
    return bool(totals[KNOWN] >= ENOUGH_PAGES and totals[RECLAIMED] >= ENOUGH_PAGES)


def _areas(
    chunks: NDArray[np.int64], counts: NDArray[np.int64], is_swap: NDArray[np.bool_]
) -> Iterator[SwapArea]:
    for first, last in _runs(chunks, is_swap):
        totals = counts[first:last].sum(axis=0)
        if not _is_enough(totals):
            continue
        device, chunk = divmod(int(chunks[first]), 1 << DEVICE_SHIFT)
        end = int(chunks[last - 1]) % (1 << DEVICE_SHIFT) + 1
        fresh, known, reclaimed = (int(totals[one]) for one in (FRESH, KNOWN, RECLAIMED))
        start, stop = chunk * CHUNK_SECTORS, end * CHUNK_SECTORS
        yield SwapArea(device, start, stop, known, reclaimed, fresh)
