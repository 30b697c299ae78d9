"""Caches reference by reference: `replayer/model/` cache.h and two_level.h for numpy arrays."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit._native.handle import ROWS, U32, U64, Handle, check, functions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_NEXT_USES = (1 << 32) - 2
POLICIES = ("lru", "fifo", "clock", "s3-fifo", "arc", "optimum")
WRITES = ("through", "back", "around")


@dataclass(frozen=True)
class CacheSetup:
    """One level: capacity in pages, names of POLICIES and WRITES; see cache.h."""

    page_count: int
    capacity: int
    policy: str = "lru"
    writes: str = "through"
    writes_allocate: bool = True


@dataclass(frozen=True)
class CacheCounts:
    """What one level did; the tuples by role * 2 + is_write, all in references of single pages."""

    references: tuple[int, ...]
    hits: tuple[int, ...]
    fills: int
    evictions: int
    backend_reads: int
    backend_writes: int
    dirty: int


@dataclass(frozen=True)
class TwoLevelSetup:
    """A fast level above a slow one, in pages; see two_level.h."""

    page_count: int
    capacity: tuple[int, int]
    policy: tuple[str, str] = ("lru", "lru")
    is_inclusive: bool = False
    writes_allocate: bool = True
    writes: str = "through"


@dataclass(frozen=True)
class TwoLevelCounts:
    """What both levels did; pairs are of reads and writes, or of the fast and the slow level."""

    references: tuple[int, int]
    fast_hits: tuple[int, int]
    slow_hits: tuple[int, int]
    fills: tuple[int, int]
    updates: tuple[int, int]
    base_writes: int
    dirty: int


class _CacheSetup(ctypes.Structure):
    _fields_ = [
        (name, U32)
        for name in ("page_count", "capacity", "policy", "writes", "writes_allocate", "unused")
    ]


class _CacheCounts(ctypes.Structure):
    _fields_ = [
        ("references", U64 * ROWS),
        ("hits", U64 * ROWS),
        *((name, U64) for name in ("fills", "evictions", "backend_reads")),
        ("backend_writes", U64),
        ("dirty", U64),
    ]


class _TwoLevelSetup(ctypes.Structure):
    _fields_ = [
        ("page_count", U32),
        ("capacity", U32 * 2),
        ("policy", U32 * 2),
        ("is_inclusive", U32),
        ("writes_allocate", U32),
        ("writes", U32),
    ]


class _TwoLevelCounts(ctypes.Structure):
    _fields_ = [
        ("references", U64 * 2),
        ("hits", (U64 * 2) * 2),
        ("fills", U64 * 2),
        ("updates", U64 * 2),
        ("base_writes", U64),
        ("dirty", U64),
    ]


class Cache(Handle):
    """One cache level, reference by reference."""

    kind = "cache"

    def __init__(self, setup: CacheSetup) -> None:
        super().__init__(ctypes.byref(_native_setup(setup)))

    def add(self, runs: NDArray[np.void], next_uses: NDArray[np.uint32] | None = None) -> None:
        """Go through runs; the optimum needs what `next_uses` returns for them."""
        self._add(runs, None if next_uses is None else next_uses.ctypes.data)

    def read(self) -> CacheCounts:
        """Return what happened so far."""
        counts = _CacheCounts()
        self._native.tk_cache_read(self._handle, ctypes.byref(counts))
        return CacheCounts(
            tuple(counts.references),
            tuple(counts.hits),
            *(getattr(counts, name) for name, *_ in _CacheCounts._fields_[2:]),
        )


class TwoLevel(Handle):
    """A fast cache above a slow one, reference by reference."""

    kind = "two_level"

    def __init__(self, setup: TwoLevelSetup) -> None:
        native = _TwoLevelSetup(
            setup.page_count,
            setup.capacity,
            (POLICIES.index(setup.policy[0]), POLICIES.index(setup.policy[1])),
            int(setup.is_inclusive),
            int(setup.writes_allocate),
            WRITES.index(setup.writes),
        )
        super().__init__(ctypes.byref(native))

    def add(self, runs: NDArray[np.void]) -> None:
        """Go through runs."""
        self._add(runs)

    def read(self) -> TwoLevelCounts:
        """Return what happened so far."""
        counts = _TwoLevelCounts()
        self._native.tk_two_level_read(self._handle, ctypes.byref(counts))
        names = ("references", "fast_hits", "slow_hits", "fills", "updates")
        pairs = (counts.references, *counts.hits, counts.fills, counts.updates)
        return TwoLevelCounts(
            **{name: (pair[0], pair[1]) for name, pair in zip(names, pairs, strict=True)},
            base_writes=counts.base_writes,
            dirty=counts.dirty,
        )


def _native_setup(setup: CacheSetup) -> _CacheSetup:
    return _CacheSetup(
        setup.page_count,
        setup.capacity,
        POLICIES.index(setup.policy),
        WRITES.index(setup.writes),
        int(setup.writes_allocate),
    )


def next_uses(setup: CacheSetup, runs: NDArray[np.void]) -> NDArray[np.uint32]:
    """Return for each page of each run the number of its next use, as the optimum needs it."""
    import numpy as np

    found = np.empty(int(runs["count"].sum(dtype=np.int64)), np.uint32)
    native = _native_setup(setup)
    status = functions().tk_cache_next_uses(
        ctypes.byref(native), runs.ctypes.data, len(runs), found.ctypes.data
    )
    check(status)
    return found
