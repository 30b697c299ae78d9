"""Swap by its invariants: no page is read that was not written, and reclaim alone writes.

The page cache is written by writeback threads or, synchronously, by who waits for it; only reclaim
writes pages asynchronously in whatever process it runs, as under a memory limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracekit._native import paging as native
from tracekit._native.paging import CHUNK_PAGES, DEVICE_SHIFT
from tracekit.units import PAGE_BYTES, SECTOR_BYTES

CHUNK_SECTORS = CHUNK_PAGES * PAGE_BYTES // SECTOR_BYTES
GAP_CHUNKS = 8
"""Chunks without a request that an area may have between its requests."""
ENOUGH_PAGES = 64


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


class Paging(native.Paging):
    """Counts of pages by chunk of a device."""

    def areas(self) -> Iterator[SwapArea]:
        """Yield the areas in which nothing but swap is done."""
        found = self.chunks()
        if not len(found):
            return
        chunks, counts = found["key"].astype(np.int64), found["counts"].astype(np.int64)
        is_swap = counts[:, native.RECLAIMED] > 0
        is_swap &= (counts[:, native.OTHER] == 0) & (counts[:, native.FRESH] == 0)
        # An area goes on while only chunks like these follow, or a few without a request.
        is_start = np.concatenate(([True], np.diff(chunks) > GAP_CHUNKS))
        is_start[1:] |= is_swap[1:] != is_swap[:-1]
        starts = np.flatnonzero(is_start)
        for first, last in zip(starts, [*starts[1:], len(chunks)], strict=True):
            fresh, known, reclaimed, _ = counts[first:last].sum(axis=0).tolist()
            if is_swap[first] and known >= ENOUGH_PAGES and reclaimed >= ENOUGH_PAGES:
                device, chunk = divmod(int(chunks[first]), 1 << DEVICE_SHIFT)
                end = int(chunks[last - 1]) % (1 << DEVICE_SHIFT) + 1
                start, stop = chunk * CHUNK_SECTORS, end * CHUNK_SECTORS
                yield SwapArea(device, start, stop, known, reclaimed, fresh)
