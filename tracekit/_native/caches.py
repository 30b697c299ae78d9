"""Caches and their curves: cache.h, curve.h and others of `replayer/model/`.

Requests go through them as accesses (ACCESS) to page keys, or as runs (RUN) over the pages' ranks.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit._native.library import (
    Owned,
    call,
    check,
    columns_for,
    constant,
    dtype_of,
    enumerators,
    out,
    struct,
)
from tracekit.errors import InputError

READ = constant("ACCESS_READ")
WRITE = constant("ACCESS_WRITE")
NEITHER = constant("ACCESS_NEITHER")
ROLE_COUNT = constant("PAGE_ROLES")
ROWS = 2 * ROLE_COUNT  # role * 2 + is_write
MAX_PAGES = constant("PAGE_MAX") - 1
MAX_RUN_PAGES = 65_535
MAX_NEXT_USES = (1 << 32) - 2
GROUPS = constant("SHARDS_GROUPS")
SHARDS_SCALE = constant("SHARDS_SCALE")
POLICIES = tuple(
    name.replace("_", "-") for name in enumerators("cache_policy_name", "POLICY_")[:-1]
)
WRITES = enumerators("cache_writes", "WRITES_")
RUN = dtype_of("struct page_run")
ACCESS = dtype_of("struct page_access")
FAILURE = "the cache simulation failed"


@dataclass(frozen=True)
class AccessColumns:
    """Columns of requests; those of texts are indices into the table that is named with them.

    `first_keys` are the keys of the devices' page 0, `kinds` READ, WRITE or NEITHER of each
    operation, `roles` indices of schema.ROLES.
    """

    sector: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    device: NDArray[np.int32]
    operation: NDArray[np.int32]
    role: NDArray[np.int32]
    first_keys: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    roles: NDArray[np.uint8]


def make_accesses(columns: AccessColumns, page_bytes: int) -> tuple[NDArray[np.void], int]:
    """Return the accesses (ACCESS) of the reads and writes, and how many of these are impossible.

    `page_bytes` is a power of two from 512. Raise TracekitError for an index beyond its table.
    """
    native = struct(
        "access_columns",
        **columns_for("access_columns", columns),
        devices=len(columns.first_keys),
        operations=len(columns.kinds),
        role_count=len(columns.roles),
        page_shift=page_bytes.bit_length() - 1,
    )
    rows = np.empty(len(columns.sector), ACCESS)
    impossible = out("uint64_t")
    made = call("tk_accesses_make", native, len(rows), rows, impossible)
    return rows[: check(made, FAILURE)], impossible[0]


class _Simulation(Owned):
    failure = FAILURE

    def add(self, rows: NDArray[np.void]) -> None:
        """Go through runs or accesses in their order."""
        self._check(self._call("add", rows, len(rows)))


class PageRuns(Owned):
    """Turns accesses (ACCESS) into runs (RUN) over the ranks of ascending page keys."""

    kind = "tk_page_runs"
    failure = FAILURE

    def __init__(self, keys: NDArray[np.int64]) -> None:
        if len(keys) > MAX_PAGES:
            raise InputError(
                f"the trace touches {len(keys):,} pages, {MAX_PAGES:,} are the most for an exact"
                " simulation",
                hint="sample with --samples, or simulate larger pages with --page",
            )
        super().__init__(keys, len(keys))

    def find(self, rows: NDArray[np.void]) -> NDArray[np.void]:
        """Return the runs of the accesses; raise InputError for a page that is not a key."""
        parts = (rows["count"].astype(np.int64) + MAX_RUN_PAGES - 1) // MAX_RUN_PAGES
        runs = np.empty(int(parts.sum()), RUN)
        made = self._call("find", rows, len(rows), runs, len(runs), out("uint64_t"))
        if made == -errno.ENOENT:
            raise InputError(
                "a request touches a block that the table 'blocks' lacks",
                hint="run: tracekit classify",
            )
        return runs[: self._check(made)]


SAMPLE_ROWS = 1 << 20


def sample_pages(rows: NDArray[np.void], thresholds: tuple[int, int]) -> Iterator[NDArray[np.void]]:
    """Yield the references (ACCESS, of one page each) of the pages between two thresholds.

    Pages are in a sample of a threshold of SHARDS_SCALE if their hash is below it.
    """
    most = max(SAMPLE_ROWS, int(rows["count"].max(initial=0)))
    while len(rows):
        found = np.empty(most, ACCESS)
        done = out("uint64_t")
        made = call("tk_page_sample", rows, len(rows), *thresholds, found, most, done)
        yield found[:made].copy()
        rows = rows[done[0] :]


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


class Cache(Owned):
    """One cache level, reference by reference."""

    kind = "tk_cache"
    failure = FAILURE

    def __init__(self, setup: CacheSetup) -> None:
        super().__init__(_native_setup(setup))

    def add(self, runs: NDArray[np.void], next_uses: NDArray[np.uint32] | None = None) -> None:
        """Go through runs; the optimum needs what `next_uses` returns for them."""
        self._check(self._call("add", runs, len(runs), next_uses))

    def read(self) -> CacheCounts:
        """Return what happened so far."""
        return CacheCounts(**self._read("read", "cache_counts"))


def next_uses(setup: CacheSetup, runs: NDArray[np.void]) -> NDArray[np.uint32]:
    """Return for each page of each run the number of its next use, as the optimum needs it."""
    found = np.empty(int(runs["count"].sum(dtype=np.int64)), np.uint32)
    check(call("tk_cache_next_uses", _native_setup(setup), runs, len(runs), found), FAILURE)
    return found


def _native_setup(setup: CacheSetup) -> Any:
    numbers = {"policy": POLICIES.index(setup.policy), "writes": WRITES.index(setup.writes)}
    return struct("cache_setup", **vars(setup) | numbers)


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


class TwoLevel(_Simulation):
    """A fast cache above a slow one, runs reference by reference."""

    kind = "tk_two_level"

    def __init__(self, setup: TwoLevelSetup) -> None:
        policies = tuple(POLICIES.index(name) for name in setup.policy)
        numbers = {"policy": policies, "writes": WRITES.index(setup.writes)}
        super().__init__(struct("two_level_setup", **vars(setup) | numbers))

    def read(self) -> TwoLevelCounts:
        """Return what happened so far."""
        counts = self._read("read", "two_level_counts")
        fast_hits, slow_hits = counts.pop("hits")
        return TwoLevelCounts(**counts, fast_hits=fast_hits, slow_hits=slow_hits)


class Curve(_Simulation):
    """Counts, for each size in pages, the references in runs that it is the smallest to hit."""

    kind = "tk_curve"

    def __init__(
        self, page_count: int, sizes: NDArray[np.uint64], *, writes_allocate: bool = True
    ) -> None:
        self._columns = len(sizes) + 2
        super().__init__(page_count, sizes, len(sizes), writes_allocate)

    def read(self) -> NDArray[np.uint64]:
        """Return ROWS rows: by size, then beyond the largest size, then first references."""
        counts = np.zeros((ROWS, self._columns), np.uint64)
        self._call("read", counts)
        return counts

    @property
    def memory_bytes(self) -> int:
        """What the tables take."""
        return int(self._call("bytes"))


@dataclass(frozen=True)
class ShardsTotals:
    """References of all pages by row; size of the sample; `threshold` is of SHARDS_SCALE."""

    references: tuple[int, ...]
    sampled: int
    pages: int
    threshold: int
    memory_bytes: int


class Shards(_Simulation):
    """A curve from a sample of accesses: sums by group of pages."""

    kind = "tk_shards"

    def __init__(self, sizes: NDArray[np.uint64], *, threshold: int, page_limit: int = 0) -> None:
        self._columns = len(sizes) + 2
        super().__init__(sizes, len(sizes), threshold, page_limit)

    def read(self) -> tuple[NDArray[np.float64], ShardsTotals]:
        """Return sums by group, row and column, and the totals."""
        sums = np.zeros((GROUPS, ROWS, self._columns))
        totals = self._read("read", "shards_totals", sums)
        memory_bytes = totals.pop("bytes")
        return sums, ShardsTotals(**totals, memory_bytes=memory_bytes)
