"""The native caches, samplers and page accesses against the slow models."""

import random
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.simulate import cache_models
from tests.simulate.cache_models import PAGES, RUNS, Run, native, references
from tracekit._native import caches
from tracekit._native.caches import NEITHER, READ, WRITE, AccessColumns, make_accesses
from tracekit.errors import InputError, TracekitError
from tracekit.model.miss_ratio_curve import (
    DEVICE_PAGES,
    Accesses,
    HitCounts,
    exact_hits,
    sampled_hits,
)

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
def test_a_policy_misses_as_its_model_does(policy: str, runs: list[Run], capacity: int) -> None:
    setup = caches.CacheSetup(PAGES, capacity, policy)
    table = native(runs)
    with caches.Cache(setup) as cache:
        cache.add(table, caches.next_uses(setup, table) if policy == "optimum" else None)
        counts = cache.read()
    misses = sum(counts.references) - sum(counts.hits)
    assert misses == cache_models.MODELS[policy](references(runs), capacity)
    assert counts.fills == misses
    assert counts.evictions == misses - min(
        counts.fills, capacity, len({page for page, _ in references(runs)})
    )


# The sketch of W-TinyLFU hashes places: which pages share its counters depends on them.
@pytest.mark.parametrize("policy", sorted({*caches.POLICIES} - {"w-tinylfu"}))
def test_where_pages_lie_does_not_matter(policy: str) -> None:
    # GIVEN references to 800 pages, of which a cache of 100 holds the most used, and the same ones
    # with their places exchanged, as a trace that is given away has them
    choose = random.Random(3)  # noqa: S311 - a fixed sequence, no secret
    pages = [min(int(choose.paretovariate(0.6)), 800) - 1 for _ in range(20_000)]
    places = choose.sample(range(800), 800)
    found = []
    for moved in (pages, [places[page] for page in pages]):
        setup = caches.CacheSetup(800, 100, policy)
        table = native([(page, 1, False) for page in moved])
        with caches.Cache(setup) as cache:
            cache.add(table, caches.next_uses(setup, table) if policy == "optimum" else None)
            found.append(sum(cache.read().hits))
    # THEN there are as many hits
    assert found[0] == found[1] > 0


@pytest.mark.plain
@pytest.mark.parametrize("policy", caches.POLICIES)
def test_memory_is_for_the_pages_there_are(policy: str) -> None:
    # GIVEN address space for a quarter of a GiB more, and a cache as large as one can be
    own_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (own_bytes + (256 << 20), before[1]))
    # WHEN it is made for a few pages, THEN it gets what it needs
    try:
        with caches.Cache(caches.CacheSetup(PAGES, (1 << 31) - 1, policy)) as cache:
            assert cache.read().fills == 0
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


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
def test_exclusive_levels_hold_as_one_cache(runs: list[Run], capacity: int, allocate: bool) -> None:
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
def test_the_inclusive_slow_level_caches_misses(runs: list[Run], fast: int, slow: int) -> None:
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


def test_a_page_beyond_the_table_is_rejected() -> None:
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
    model = cache_models.make_level(policy, capacity)
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


NUMBERS = st.one_of(st.integers(-2, 40), st.sampled_from([-(1 << 63), (1 << 57) - 1, 1 << 57]))
LENGTHS = st.one_of(st.integers(-1, 9000), st.sampled_from([(1 << 32) - 1, 1 << 32, (1 << 63) - 1]))
ROW = st.tuples(NUMBERS, LENGTHS, st.integers(0, 1), st.integers(0, 3), st.integers(0, 2))
KINDS = (READ, WRITE, NEITHER, READ)
FIRST_KEYS = (0, 1 << 40)


def columns(rows: list[tuple[int, ...]]) -> AccessColumns:
    """Return rows of sector, length, device, operation and role."""
    table = np.array(rows, np.int64).reshape(-1, 5)
    device, operation, role = (table[:, at].astype(np.int32) for at in (2, 3, 4))
    keys, kinds = np.array(FIRST_KEYS, np.int64), np.array(KINDS, np.uint8)
    roles = np.array([4, 0, 2], np.uint8)
    return AccessColumns(table[:, 0], table[:, 1], device, operation, role, keys, kinds, roles)


@settings(deadline=None)
@given(rows=st.lists(ROW, max_size=20), page_bytes=st.sampled_from([512, 4096, 1 << 20]))
def test_accesses_are_the_pages_touched(rows: list[tuple[int, ...]], page_bytes: int) -> None:
    expected, impossible = [], 0
    for sector, length, device, operation, role in rows:
        kind = KINDS[operation]
        if kind == NEITHER:
            continue
        if not (0 <= sector < 1 << 57 and 0 < length < 1 << 32):
            impossible += 1
            continue
        first = sector * 512 // page_bytes
        last = (sector * 512 + length - 1) // page_bytes
        key = FIRST_KEYS[device] + first
        expected.append((key, last - first + 1, kind, (4, 0, 2)[role], 0))
    found, count = make_accesses(columns(rows), page_bytes)
    assert found.tolist() == expected
    assert count == impossible


@pytest.mark.parametrize(
    "row", [(0, 1, 2, 0, 0), (0, 1, -1, 0, 0), (0, 1, 0, 4, 0), (0, 1, 0, 0, 3)]
)
def test_an_index_beyond_its_table_is_rejected(row: tuple[int, ...]) -> None:
    with pytest.raises(TracekitError, match="failed"):
        make_accesses(columns([row]), 4096)


def test_devices_are_apart_and_names_may_be_missing(tmp_path: Path) -> None:
    # GIVEN a file whose row groups name the devices in another order, and have nulls
    file = tmp_path / "requests.parquet"
    texts, numbers = ("device", "operation", "role"), ("sector", "length_bytes")
    names = ("device", *numbers, *texts[1:])
    schema = pa.schema([(name, pa.int64() if name in numbers else pa.string()) for name in names])
    groups: list[list[tuple[Any, ...]]] = [
        [("sdb", 8, 4096, "read", "swap"), ("sda", 0, 4096, "write", None)],
        [
            ("sda", 16, 8192, "read", "new"),
            ("sdb", None, 1, "read", "fs"),
            ("sda", 0, 1, None, "fs"),
        ],
    ]
    with pq.ParquetWriter(file, schema) as writer:
        for group in groups:
            table = [dict(zip(schema.names, row, strict=True)) for row in group]
            writer.write_table(pa.Table.from_pylist(table, schema))
    accesses = Accesses(file, 4096)
    rows = np.concatenate(list(accesses.read()))
    # THEN each device has its own keys, what has no operation is an access,
    # and what has no place is counted
    assert accesses.device_names == ["sdb", "sda"]
    assert rows["key"].tolist() == [1, DEVICE_PAGES, DEVICE_PAGES + 2, DEVICE_PAGES]
    assert rows[["count", "is_write", "role"]].tolist() == [
        (1, 0, 2),
        (1, 1, 4),
        (2, 0, 4),
        (1, 0, 0),
    ]
    assert accesses.impossible == 1


MANY_PAGES = 400_000
SAMPLED_SIZES = np.unique(np.geomspace(2_000, MANY_PAGES, 60).astype(np.uint64))
MODEL_SIZES = np.unique(np.geomspace(1, MANY_PAGES, 99).astype(np.uint64))
WORKLOADS = ("zipf", "loops", "shifting", "scan", "mixed")


def accesses(workload: str, *, seed: int = 1) -> NDArray[np.void]:
    """Return reads and writes of 1 to 8 pages, in one of the WORKLOADS.

    Skewed, in loops, of a set that moves on, once through all, or skew and a loop in turn.
    """
    random = np.random.default_rng(seed)
    count = 300_000
    number = np.arange(count)
    if workload == "zipf":
        first = (MANY_PAGES ** random.random(count)).astype(np.int64) * 7_919 % MANY_PAGES
    elif workload == "loops":
        first = np.where(number % 3 == 0, number * 4 % 90_000, 100_000 + number * 2 % 150_000)
    elif workload == "scan":
        first = number * 4 % MANY_PAGES
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
    with caches.PageRuns(keys) as pages, caches.Curve(len(keys), SAMPLED_SIZES) as curve:
        curve.add(pages.find(rows))
        return exact_hits(curve.read(), SAMPLED_SIZES)


def sampled(rows: NDArray[np.void], *, rate: float = 1.0, page_limit: int = 0) -> HitCounts:
    with caches.Shards(
        SAMPLED_SIZES, threshold=round(rate * caches.SHARDS_SCALE), page_limit=page_limit
    ) as shards:
        for first in range(0, len(rows), 77_777):
            shards.add(rows[first : first + 77_777])
        return sampled_hits(shards, SAMPLED_SIZES)


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
    model = cache_models.shards(keys, MODEL_SIZES.tolist(), threshold=threshold, limit=limit)
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
def test_a_sample_is_the_models(pages: list[tuple[int, int]], threshold: int, limit: int) -> None:
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
