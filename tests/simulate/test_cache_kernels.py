"""The native caches against the slow ones of cache_models.py, on random references."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulate import cache_models, level_models
from tests.simulate.cache_runs import PAGES, RUNS, Run, native, references
from tracekit._native import caches
from tracekit.errors import InputError, TracekitError

SIZES = np.arange(1, PAGES + 2, dtype=np.uint64)


def curve_misses(runs: list[Run], *, allocate: bool) -> list[int]:
    """Return the misses of each of SIZES."""
    with caches.Curve(PAGES, SIZES, writes_allocate=allocate) as curve:
        curve.add(native(runs))
        counts = curve.read()
    return [int(counts[:, column + 1 :].sum()) for column in range(len(SIZES))]


@settings(deadline=None)
@given(runs=RUNS, allocate=st.booleans())
def test_one_pass_gives_the_misses_of_every_size(runs: list[Run], allocate: bool) -> None:
    expected = [
        cache_models.lru_misses(references(runs), int(size), allocate=allocate) for size in SIZES
    ]
    assert curve_misses(runs, allocate=allocate) == expected


def test_a_curve_survives_many_renumberings() -> None:
    # GIVEN more touches than time slots by far, in runs of all lengths
    random = np.random.default_rng(5)
    runs = [
        (int(first), int(min(count, PAGES - first)), False)
        for first, count in zip(
            random.integers(0, PAGES, 3000), random.integers(1, 20, 3000), strict=True
        )
    ]
    # THEN every distance is still right
    expected = [cache_models.lru_misses(references(runs), size) for size in (1, 7, 20)]
    misses = curve_misses(runs, allocate=True)
    assert [misses[0], misses[6], misses[19]] == expected


def test_roles_and_writes_are_counted_apart() -> None:
    runs = native([(0, 2, False), (0, 2, True), (1, 1, False)], roles=[0, 1, 2])
    with caches.Curve(PAGES, np.array([1, 2], np.uint64)) as curve:
        curve.add(runs)
        counts = curve.read()
    # Columns: hits from one page, from two pages, beyond, first references
    expected = np.zeros((caches.ROWS, 4), np.uint64)
    expected[0, 3] = 2  # role 0 reads both pages first
    expected[3, 1] = 2  # role 1 writes them, each with the other used since
    expected[4, 0] = 1  # role 2 reads the newest
    assert counts.tolist() == expected.tolist()


@pytest.mark.parametrize("policy", caches.POLICIES)
@settings(deadline=None)
@given(runs=RUNS, capacity=st.integers(1, PAGES + 2))
def test_a_policy_misses_as_its_definition_does(
    policy: str, runs: list[Run], capacity: int
) -> None:
    setup = caches.CacheSetup(PAGES, capacity, policy)
    table = native(runs)
    with caches.Cache(setup) as cache:
        cache.add(table, caches.next_uses(setup, table) if policy == "optimum" else None)
        counts = cache.read()
    misses = sum(counts.references) - sum(counts.hits)
    assert misses == cache_models.MODELS[policy](references(runs), capacity)
    assert counts.fills == misses
    assert counts.evictions == misses - min(counts.fills, capacity, len(set(references_of(runs))))


def references_of(runs: list[Run]) -> list[int]:
    """Return the pages of the references."""
    return [page for page, _ in references(runs)]


@pytest.mark.parametrize("writes", caches.WRITES)
@settings(deadline=None)
@given(runs=RUNS, capacity=st.integers(1, PAGES + 2))
def test_writes_go_where_they_should(writes: str, runs: list[Run], capacity: int) -> None:
    with caches.Cache(caches.CacheSetup(PAGES, capacity, "lru", writes)) as cache:
        cache.add(native(runs))
        counts = cache.read()
    found = (counts.backend_reads, counts.backend_writes, counts.dirty)
    assert found == cache_models.write_counts(references(runs), capacity, writes)


@pytest.mark.parametrize("policy", caches.POLICIES)
@pytest.mark.parametrize("writes", caches.WRITES)
@settings(deadline=None, max_examples=40)
@given(runs=RUNS, capacity=st.integers(0, PAGES + 2), allocate=st.booleans())
def test_no_policy_beats_the_optimum_in_any_way_of_writing(
    policy: str, writes: str, runs: list[Run], capacity: int, allocate: bool
) -> None:
    table = native(runs)
    # A write is served by the cache only if it may bring its page there.
    is_write_served = allocate and writes != "around"
    hits = []
    for name in (policy, "optimum"):
        setup = caches.CacheSetup(PAGES, capacity, name, writes, allocate)
        with caches.Cache(setup) as cache:
            cache.add(table, caches.next_uses(setup, table))
            counts = cache.read()
        hits.append(sum(counts.hits[0::2]) + (sum(counts.hits[1::2]) if is_write_served else 0))
    assert hits[0] <= hits[1]


@settings(deadline=None)
@given(runs=RUNS, capacity=st.integers(0, PAGES + 2), allocate=st.booleans())
def test_two_exclusive_levels_hold_what_one_of_both_sizes_holds(
    runs: list[Run], capacity: int, allocate: bool
) -> None:
    misses = [len(references(runs)), *curve_misses(runs, allocate=allocate)]
    for slow in range(PAGES + 1 - capacity if capacity <= PAGES else 0):
        setup = caches.TwoLevelSetup(PAGES, (capacity, slow), writes_allocate=allocate)
        with caches.TwoLevel(setup) as cache:
            cache.add(native(runs))
            counts = cache.read()
        assert sum(counts.references) - sum(counts.fast_hits) == misses[capacity]
        assert sum(counts.slow_hits) == misses[capacity] - misses[capacity + slow]


@settings(deadline=None)
@given(runs=RUNS, fast=st.integers(0, 8), slow=st.integers(0, PAGES))
def test_the_inclusive_slow_level_is_a_cache_of_the_fast_ones_misses(
    runs: list[Run], fast: int, slow: int
) -> None:
    with caches.TwoLevel(caches.TwoLevelSetup(PAGES, (fast, slow), is_inclusive=True)) as cache:
        cache.add(native(runs))
        counts = cache.read()
    upper: list[int] = []
    lower: list[int] = []
    hits = [0, 0]
    for page, _ in references(runs):
        if page in upper:
            hits[0] += 1
        else:
            hits[1] += page in lower
            lower = [other for other in lower if other != page] + [page]
            if len(lower) > slow:
                upper = [other for other in upper if other != lower[0]] if slow else upper
                lower = lower[1:]
        upper = ([other for other in upper if other != page] + [page])[-fast:] if fast else []
    assert (sum(counts.fast_hits), sum(counts.slow_hits)) == (hits[0], hits[1])


def test_a_request_becomes_ranks_of_its_pages() -> None:
    keys = np.array([5, 6, 7, 100], np.int64)
    rows = np.array([(6, 2, 1, 3, 0), (100, 1, 0, 0, 0)], np.dtype(caches.ACCESS))
    with caches.PageRuns(keys) as pages:
        assert pages.find(rows).tolist() == [(1, 2, 1, 3), (3, 1, 0, 0)]
        # A request that goes on beyond what was touched cannot be of this trace.
        with pytest.raises(InputError, match="lacks"):
            pages.find(np.array([(7, 2, 0, 0, 0)], np.dtype(caches.ACCESS)))


def test_a_request_above_65535_pages_is_cut() -> None:
    with caches.PageRuns(np.arange(70_000, dtype=np.int64)) as pages:
        runs = pages.find(np.array([(0, 70_000, 0, 1, 0)], np.dtype(caches.ACCESS)))
    assert runs.tolist() == [(0, 65_535, 0, 1), (65_535, 4_465, 0, 1)]


def test_a_page_beyond_the_table_is_refused() -> None:
    runs = native([(PAGES - 1, 2, False)])
    with caches.Curve(PAGES, SIZES) as curve, pytest.raises(TracekitError, match="failed"):
        curve.add(runs)
    with (
        caches.Cache(caches.CacheSetup(PAGES, 4)) as cache,
        pytest.raises(TracekitError, match="failed"),
    ):
        cache.add(runs)


@pytest.mark.parametrize("writes", caches.WRITES)
def test_the_optimum_survives_many_uses(writes: str) -> None:
    # GIVEN uses by the hundred for each page that fits, so that passed uses are cleared often
    random = np.random.default_rng(8)
    runs = [(int(page), 1, random.random() < 0.2) for page in random.integers(0, PAGES, 4000)]
    setup = caches.CacheSetup(PAGES, 7, "optimum", writes)
    with caches.Cache(setup) as cache:
        cache.add(native(runs), caches.next_uses(setup, native(runs)))
        counts = cache.read()
    # THEN as many pages come in as in the model, also where writes take pages away
    around = writes == "around"
    assert counts.fills == cache_models.optimum_fills(references(runs), 7, drops=around)


@pytest.mark.parametrize("policy", caches.POLICIES[:-1])
@pytest.mark.parametrize("capacity", [1, 2, 9, 20, PAGES + 3])
def test_the_queue_of_a_policy_survives_many_uses_and_drops(policy: str, capacity: int) -> None:
    # GIVEN uses by the hundred for each page that fits, and writes that take pages out of the
    # middle of a queue, so that its ring goes round and is compacted often
    random = np.random.default_rng(capacity)
    pages = (PAGES * random.random(6000) ** 2).astype(int)
    runs = [(int(page), 1, random.random() < 0.15) for page in pages]
    with caches.Cache(caches.CacheSetup(PAGES, capacity, policy, "around")) as cache:
        cache.add(native(runs))
        counts = cache.read()
    # THEN the pages that were there, came and left are those of the lists
    model = level_models.make(policy, capacity)
    hits = fills = evictions = 0
    for page, is_write in references(runs):
        is_there = page in model.holds()
        hits += is_there
        if is_write and is_there:
            model.drop(page)
        elif not is_write and is_there:
            model.hit(page)
        elif not is_write:
            fills += 1
            evictions += model.admit(page) is not None
    assert (sum(counts.hits), counts.fills, counts.evictions) == (hits, fills, evictions)


@pytest.mark.parametrize("pages", [10_000, 1_000_000])
def test_a_curve_takes_at_most_20_bytes_a_page(pages: int) -> None:
    # GIVEN every page touched; the table of ranks takes at most 12 bytes a page and 4 MiB
    sizes = np.unique(np.geomspace(1, pages, 100).astype(np.uint64))
    with caches.Curve(pages, sizes) as curve:
        curve.add(native([(first, 100, False) for first in range(0, pages, 100)]))
        assert curve.memory_bytes + 12 * pages <= 20 * pages
