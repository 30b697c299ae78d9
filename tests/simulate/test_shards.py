"""Sampled miss ratio curves against exact ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tracekit.native.curves import SHARDS_SCALE, Curve, PageRuns, Shards, ShardsTotals
from tracekit.native.handle import ACCESS
from tracekit.simulate.hit_counts import HitCounts, exact_hits, sampled_hits

if TYPE_CHECKING:
    from numpy.typing import NDArray

PAGES = 400_000
SIZES = np.unique(np.geomspace(2_000, PAGES, 60).astype(np.uint64))
WORKLOADS = ("zipf", "loops", "shifting")


def accesses(workload: str, *, seed: int = 1) -> NDArray[np.void]:
    """Return reads and writes of 1 to 8 pages: skewed, in loops, or of a set that moves on."""
    random = np.random.default_rng(seed)
    count = 300_000
    number = np.arange(count)
    if workload == "zipf":
        first = (PAGES ** random.random(count)).astype(np.int64) * 7_919 % PAGES
    elif workload == "loops":
        first = np.where(number % 3 == 0, number * 4 % 90_000, 100_000 + number * 2 % 150_000)
    else:
        first = number // 3 + (random.exponential(20_000, count)).astype(np.int64)
    rows = np.zeros(count, np.dtype(ACCESS))
    rows["key"] = first
    rows["count"] = random.integers(1, 9, count)
    rows["is_write"] = random.random(count) < 0.4
    return rows


def exact(rows: NDArray[np.void]) -> HitCounts:
    keys = np.arange(int(rows["key"].max()) + 9, dtype=np.int64)
    with PageRuns(keys) as pages, Curve(len(keys), SIZES) as curve:
        curve.add(pages.find(rows))
        return exact_hits(curve.read(), SIZES)


def sampled(rows: NDArray[np.void], *, rate: float = 1.0, page_limit: int = 0) -> HitCounts:
    with Shards(SIZES, threshold=round(rate * SHARDS_SCALE), page_limit=page_limit) as shards:
        for first in range(0, len(rows), 77_777):
            shards.add(rows[first : first + 77_777])
        return sampled_hits(shards, SIZES)


def totals(counts: HitCounts) -> ShardsTotals:
    assert counts.shards is not None
    return counts.shards


def test_a_sample_of_everything_is_exact() -> None:
    rows = accesses("zipf")[:20_000]
    whole, all_sampled = exact(rows), sampled(rows)
    assert all_sampled.hits.tolist() == whole.hits.tolist()
    low, high = all_sampled.bounds(list(range(10)))
    assert np.abs(high - low).max() < 1e-12


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("page_limit", [0, 32_768])
def test_the_error_is_small_and_within_the_band(workload: str, page_limit: int) -> None:
    # GIVEN several workloads, and a sample by rate or by number of pages
    covered, errors = [], []
    rate = 1.0 if page_limit else 0.08
    for seed in range(3):
        rows = accesses(workload, seed=seed)
        # Another origin is another sample of the same pages.
        moved = rows.copy()
        moved["key"] += seed << 40
        truth = exact(rows)
        guess = sampled(moved, rate=rate, page_limit=page_limit)
        for choice in ([*range(10)], [0], [1]):
            low, high = guess.bounds(choice)
            ratio = truth.miss_ratios(choice)
            covered.append((low <= ratio + 1e-12) & (ratio <= high + 1e-12))
            errors.append(np.abs(guess.miss_ratios(choice) - ratio))
    # THEN the mean error is at most a hundredth and the band holds 95 % of the points
    assert np.concatenate(errors).mean() <= 0.01
    assert np.concatenate(covered).mean() >= 0.95


def test_a_limited_sample_never_grows_above_its_limit() -> None:
    counts = sampled(accesses("shifting"), page_limit=500)
    assert 0 < totals(counts).pages <= 500
    assert totals(counts).threshold < SHARDS_SCALE
    assert totals(counts).memory_bytes < 8 << 20


def test_references_of_all_pages_are_counted() -> None:
    rows = accesses("loops")
    reads = int(rows["count"][rows["is_write"] == 0].sum())
    writes = int(rows["count"][rows["is_write"] == 1].sum())
    assert totals(sampled(rows, rate=0.01)).references == (reads, writes, *[0] * 8)
