"""Miniature simulation: any policy on a sample of the pages, in a cache that is as much smaller.

Waldspurger, Saemundsson, Ahmad and Park, "Cache Modeling and Optimization using Miniature
Simulations", USENIX ATC 2017. All references of the sampled pages go through a cache of the rate
times the size; misses are scaled up, and references that the sample has too few or too many of
count as hits, as in SHARDS-adj. How far off that is comes from the sample itself: each quarter of
its pages makes a simulation of its own, and the spread of the four gives the error of the whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tracekit._native.caches import (
    ACCESS,
    SHARDS_SCALE,
    CacheCounts,
    CacheSetup,
    PageRuns,
    sample_pages,
)
from tracekit.model.cache_plane import simulate_policies
from tracekit.model.miss_ratio_curve import Accesses

QUARTERS = 4
# Student's t for 95 % with three degrees of freedom.
T = 3.18
# A smaller cache of a quarter would have fewer than four pages, and round its size by an eighth.
LEAST_PAGES = 16
# The same of the smallest queue that a policy has: so many times as many pages.
PARTS = {"2q": 4, "s3-fifo": 10, "lirs": 100, "w-tinylfu": 100}

OnStep = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Part:
    """The references of some pages, as runs over their ranks."""

    runs: NDArray[np.void]
    page_count: int
    rate: float


@dataclass(frozen=True)
class Miniature:
    """A sample of the pages and its quarters; `references` are all reads and writes."""

    whole: Part
    quarters: list[Part]
    references: tuple[int, int]

    def fits(self, size: int, policy: str) -> bool:
        """Whether a cache of so many pages can be simulated, with its smallest queue."""
        return size == 0 or size * self.whole.rate >= LEAST_PAGES * PARTS.get(policy, 1)


@dataclass(frozen=True)
class Estimate:
    """What a cache of the whole trace would do, and the band of its miss ratio."""

    setup: CacheSetup
    counts: CacheCounts  # references and hits of reads and of writes
    low: float
    high: float


def take(
    accesses: Accesses,
    *,
    threshold: int,
    references: tuple[int, int],
    on_rows: Callable[[int], None] | None,
) -> Miniature:
    """Read the trace for the references of the pages below a threshold of SHARDS_SCALE."""
    found = [np.empty(0, ACCESS)]
    for rows in accesses.read(on_rows):
        found += sample_pages(rows, (0, threshold))
    sampled = np.concatenate(found)
    edges = [threshold * at // QUARTERS for at in range(QUARTERS + 1)]
    bounds = [(0, threshold), *itertools.pairwise(edges)]
    whole, *quarters = (
        _part(np.concatenate([np.empty(0, ACCESS), *sample_pages(sampled, pair)]), pair)
        for pair in bounds
    )
    return Miniature(whole, quarters, references)


def _part(rows: NDArray[np.void], thresholds: tuple[int, int]) -> Part:
    keys = np.unique(rows["key"])
    with PageRuns(keys) as ranks:
        runs = ranks.find(rows)
    return Part(runs, len(keys), (thresholds[1] - thresholds[0]) / SHARDS_SCALE)


def estimates(
    sample: Miniature, setups: Sequence[CacheSetup], *, on_step: OnStep
) -> Iterator[Estimate]:
    """Yield what caches of the whole trace would do, each of a size that fits."""
    parts = [sample.whole, *sample.quarters]
    counts = [
        [*simulate_policies([_smaller(one, part) for one in setups], part.runs, on_step=on_step)]
        for part in parts
    ]
    for setup, whole, *quarters in zip(setups, *counts, strict=True):
        yield _estimate(sample, setup, whole, quarters)


def _smaller(setup: CacheSetup, part: Part) -> CacheSetup:
    capacity = round(setup.capacity * part.rate)
    return replace(setup, page_count=part.page_count, capacity=capacity)


def _estimate(
    sample: Miniature, setup: CacheSetup, whole: CacheCounts, quarters: Sequence[CacheCounts]
) -> Estimate:
    counts = _scaled(sample, setup, whole)
    total = sum(sample.references)
    ratio = 1 - sum(counts.hits) / total
    if not setup.capacity:
        return Estimate(setup, counts, ratio, ratio)
    found = [
        sum(_misses(one)) / part.rate / total
        for part, one in zip(sample.quarters, quarters, strict=True)
    ]
    error = T * float(np.std(found, ddof=1)) / QUARTERS**0.5 * (1 - sample.whole.rate) ** 0.5
    return Estimate(setup, counts, max(0.0, ratio - error), min(1.0, ratio + error))


def _misses(counts: CacheCounts) -> tuple[int, int]:
    reads, writes = (sum(counts.references[at::2]) - sum(counts.hits[at::2]) for at in (0, 1))
    return reads, writes


def _scaled(sample: Miniature, setup: CacheSetup, counts: CacheCounts) -> CacheCounts:
    rate, totals = sample.whole.rate, sample.references
    if not setup.capacity:
        return CacheCounts(totals, (0, 0), 0, 0, totals[0], totals[1], 0)
    missed = [
        min(total, round(misses / rate))
        for total, misses in zip(totals, _misses(counts), strict=True)
    ]
    # Whatever is not written back is written behind the cache at once.
    behind = round(counts.backend_writes / rate) if setup.writes == "back" else totals[1]
    return CacheCounts(
        references=totals,
        hits=(totals[0] - missed[0], totals[1] - missed[1]),
        fills=round(counts.fills / rate),
        evictions=round(counts.evictions / rate),
        backend_reads=missed[0],
        backend_writes=behind,
        dirty=round(counts.dirty / rate),
    )
