"""Sampled miss ratio curves against exact ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.simulate import shards_model
from tracekit._native import caches
from tracekit.model.miss_ratio_curve import HitCounts, exact_hits, sampled_hits

PAGES = 400_000
SIZES = np.unique(np.geomspace(2_000, PAGES, 60).astype(np.uint64))
MODEL_SIZES = np.unique(np.geomspace(1, PAGES, 99).astype(np.uint64))
WORKLOADS = ("zipf", "loops", "shifting", "scan", "mixed")


def accesses(workload: str, *, seed: int = 1) -> NDArray[np.void]:
    """Return reads and writes of 1 to 8 pages, in one of the WORKLOADS.

    Skewed, in loops, of a set that moves on, once through all, or skew and a loop in turn.
    """
    random = np.random.default_rng(seed)
    count = 300_000
    number = np.arange(count)
    if workload == "zipf":
        first = (PAGES ** random.random(count)).astype(np.int64) * 7_919 % PAGES
    elif workload == "loops":
        first = np.where(number % 3 == 0, number * 4 % 90_000, 100_000 + number * 2 % 150_000)
    elif workload == "scan":
        first = number * 4 % PAGES
    elif workload == "mixed":
        skewed = (100_000 * random.random(count) ** 3).astype(np.int64)
        first = np.where(random.random(count) < 0.5, skewed, 100_000 + number * 2 % 200_000)
    else:
        first = number // 3 + (random.exponential(20_000, count)).astype(np.int64)
    rows = np.zeros(count, np.dtype(caches.ACCESS))
    rows["key"] = first
    rows["count"] = random.integers(1, 9, count)
    rows["is_write"] = random.random(count) < 0.4
    return rows


def exact(rows: NDArray[np.void]) -> HitCounts:
    keys = np.arange(int(rows["key"].max()) + 9, dtype=np.int64)
    with caches.PageRuns(keys) as pages, caches.Curve(len(keys), SIZES) as curve:
        curve.add(pages.find(rows))
        return exact_hits(curve.read(), SIZES)


def sampled(rows: NDArray[np.void], *, rate: float = 1.0, page_limit: int = 0) -> HitCounts:
    with caches.Shards(
        SIZES, threshold=round(rate * caches.SHARDS_SCALE), page_limit=page_limit
    ) as shards:
        for first in range(0, len(rows), 77_777):
            shards.add(rows[first : first + 77_777])
        return sampled_hits(shards, SIZES)


def totals(counts: HitCounts) -> caches.ShardsTotals:
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


def check_against_the_model(rows: NDArray[np.void], *, threshold: int, limit: int) -> None:
    """Compare sums, rate and number of pages with those of the model."""
    keys = [int(row["key"]) + page for row in rows for page in range(row["count"])]
    model = shards_model.shards(keys, MODEL_SIZES.tolist(), threshold=threshold, limit=limit)
    with caches.Shards(MODEL_SIZES, threshold=threshold, page_limit=limit) as shards:
        shards.add(rows)
        sums, found = shards.read()
    expected = np.zeros((caches.GROUPS, len(MODEL_SIZES) + 2))
    for place, weight in model[0].items():
        expected[place] = weight
    assert np.allclose(sums.sum(axis=1), expected, rtol=1e-12)
    assert (found.threshold, found.pages) == (model[1], len(model[2]))


@settings(deadline=None)
@given(
    pages=st.lists(st.tuples(st.integers(-40, 40), st.integers(1, 9)), max_size=60),
    threshold=st.integers(1, caches.SHARDS_SCALE),
    limit=st.integers(0, 12),
)
def test_a_sample_is_that_of_the_model(
    pages: list[tuple[int, int]], threshold: int, limit: int
) -> None:
    rows = np.zeros(len(pages), np.dtype(caches.ACCESS))
    for row, (key, count) in zip(rows, pages, strict=True):
        row["key"], row["count"] = key, count
    check_against_the_model(rows, threshold=threshold, limit=limit)


@pytest.mark.parametrize("limit", [0, 1, 700])
def test_a_sample_that_grows_or_is_cut_is_that_of_the_model(limit: int) -> None:
    # GIVEN more pages than the first table holds, a request longer than what waits, and reuse
    random = np.random.default_rng(limit)
    rows = np.zeros(6000, np.dtype(caches.ACCESS))
    rows["key"] = 20_000 * random.random(len(rows)) ** 2
    rows["count"] = random.integers(1, 4, len(rows))
    rows["count"][17] = 1000
    check_against_the_model(rows, threshold=caches.SHARDS_SCALE * 3 // 4, limit=limit)


def test_a_limited_sample_never_grows_above_its_limit() -> None:
    counts = sampled(accesses("shifting"), page_limit=500)
    assert 0 < totals(counts).pages <= 500
    assert totals(counts).threshold < caches.SHARDS_SCALE
    assert totals(counts).memory_bytes < 8 << 20


def test_references_of_all_pages_are_counted() -> None:
    rows = accesses("loops")
    reads = int(rows["count"][rows["is_write"] == 0].sum())
    writes = int(rows["count"][rows["is_write"] == 1].sum())
    assert totals(sampled(rows, rate=0.01)).references == (reads, writes, *[0] * 8)
