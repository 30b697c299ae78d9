"""Swap by its invariants: no page is read that was not written, and reclaim alone writes.

The page cache is written by writeback threads or, synchronously, by who waits for it; only reclaim
writes pages asynchronously in whatever process it runs, as under a memory limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tracekit.units import PAGE_BYTES, SECTOR_BYTES

Integers = NDArray[np.int64]
PAGE_SECTORS = PAGE_BYTES // SECTOR_BYTES
CHUNK_PAGES = 64
"""Pages that are judged together: 256 KiB."""
GAP_CHUNKS = 8
"""Chunks without a request that an area may have between its requests."""
DEVICE_SHIFT = 44
MOST_AT_ONCE = 1 << 20
MOST_PAGES = 1 << 25
"""Pages whose first write is kept: 128 GiB; what comes behind them is not looked at."""
ENOUGH_PAGES = 64
FRESH, KNOWN, RECLAIMED, OTHER = range(4)
"""Pages read before and after a write, and written by reclaim and by others."""


@dataclass(frozen=True, slots=True)
class Touches:
    """Reads and writes in queue order, and which of the writes can be of reclaim."""

    device: Integers
    sector: Integers
    end: Integers
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


@dataclass
class Paging:
    """Counts of pages by chunk of a device."""

    written: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    counts: list[Integers] = field(default_factory=list)
    """Rows of chunk and the four counts."""
    waiting: list[Touches] = field(default_factory=list)
    waiting_pages: int = 0

    def add(self, touches: Touches) -> None:
        """Take requests that follow those taken before."""
        if len(self.written) < MOST_PAGES:
            self.waiting.append(touches)
            self.waiting_pages += int(_pages_of(touches).sum())
        if self.waiting_pages >= MOST_AT_ONCE:
            self._take_waiting()

    def _take_waiting(self) -> None:
        """Take many requests at once, since the pages written so far are merged each time."""
        if not self.waiting:
            return
        columns = [[getattr(one, name) for one in self.waiting] for name in Touches.__slots__]
        touches = Touches(*map(np.concatenate, columns))
        self.waiting, self.waiting_pages = [], 0
        pages = _pages_of(touches)
        edges = np.searchsorted(
            np.cumsum(pages), np.arange(MOST_AT_ONCE, pages.sum() + MOST_AT_ONCE, MOST_AT_ONCE)
        )
        for first, last in zip([0, *edges], [*edges, len(pages)], strict=True):
            if first < last and len(self.written) < MOST_PAGES:
                self._take(touches, pages, slice(int(first), int(last)))

    def _take(self, touches: Touches, pages: Integers, rows: slice) -> None:
        count = pages[rows]
        row = np.repeat(np.arange(len(count)), count)
        inside = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        start = (touches.device[rows] << DEVICE_SHIFT) + touches.sector[rows] // PAGE_SECTORS
        page, is_write = start[row] + inside, touches.is_write[rows][row]
        written, first = np.unique(page[is_write], return_index=True)
        order = np.flatnonzero(is_write)[first]
        is_known = _contains(self.written, page)
        if len(written):
            place = np.minimum(np.searchsorted(written, page), len(written) - 1)
            is_known |= (written[place] == page) & (order[place] < np.arange(len(page)))
        kind = np.where(
            is_write,
            np.where(touches.is_reclaim[rows][row], RECLAIMED, OTHER),
            np.where(is_known, KNOWN, FRESH),
        )
        self.counts.append(_by_chunk(page // CHUNK_PAGES, kind))
        added = written[~_contains(self.written, written)]
        # Two sorted runs: the stable sort merges them in one pass.
        self.written = np.sort(np.concatenate((self.written, added)), kind="stable")

    def areas(self) -> Iterator[SwapArea]:
        """Yield the areas in which nothing but swap is done."""
        self._take_waiting()
        if not self.counts:
            return
        rows = np.concatenate(self.counts)
        chunks, place = np.unique(rows[:, 0], return_inverse=True)
        counts = np.zeros((len(chunks), 4), np.int64)
        np.add.at(counts, place, rows[:, 1:])
        is_swap = (counts[:, RECLAIMED] > 0) & (counts[:, OTHER] == 0) & (counts[:, FRESH] == 0)
        # An area goes on while only chunks like these follow, or a few without a request.
        is_start = np.concatenate(([True], np.diff(chunks) > GAP_CHUNKS))
        is_start[1:] |= is_swap[1:] != is_swap[:-1]
        starts = np.flatnonzero(is_start)
        for first, last in zip(starts, [*starts[1:], len(chunks)], strict=True):
            fresh, known, reclaimed, _ = counts[first:last].sum(axis=0).tolist()
            if is_swap[first] and known >= ENOUGH_PAGES and reclaimed >= ENOUGH_PAGES:
                device, chunk = divmod(int(chunks[first]), (1 << DEVICE_SHIFT) // CHUNK_PAGES)
                end = int(chunks[last - 1]) % ((1 << DEVICE_SHIFT) // CHUNK_PAGES) + 1
                size = CHUNK_PAGES * PAGE_SECTORS
                yield SwapArea(device, chunk * size, end * size, known, reclaimed, fresh)


def _pages_of(touches: Touches) -> Integers:
    end = (touches.end + PAGE_SECTORS - 1) // PAGE_SECTORS
    return end - touches.sector // PAGE_SECTORS


def _contains(known: Integers, wanted: Integers) -> NDArray[np.bool_]:
    if not len(known):
        return np.zeros(len(wanted), np.bool_)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    found: NDArray[np.bool_] = known[place] == wanted
    return found


def _by_chunk(chunk: Integers, kind: Integers) -> Integers:
    chunks, place = np.unique(chunk, return_inverse=True)
    counts = np.bincount(place * 4 + kind, minlength=4 * len(chunks)).reshape(-1, 4)
    return np.column_stack((chunks, counts)).astype(np.int64)
