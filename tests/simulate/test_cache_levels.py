"""Two levels with any policies against lists, the plane against the simulator, and its words."""

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

from tests.command_line import succeed
from tests.simulate.cache_models import PAGES, Copies, Run, native, references, two_level_counts
from tests.simulate.test_cache import MIXED, PAGE, SMALL, simulated
from tests.simulate.traces import make_trace
from tests.traces import rows_of
from tracekit._native.caches import Curve, TwoLevel, TwoLevelSetup
from tracekit.devices import Profile
from tracekit.errors import UsageError
from tracekit.model.cache import LEVEL_POLICIES, CacheOptions, parse_policies
from tracekit.model.cache_plane import Devices, Pair, exclusive_pair, pair_of, simulated_pair
from tracekit.model.miss_ratio_curve import exact_hits

PAGE_BYTES = 4096
COUNT = 600  # pages of a shape
SHAPES: dict[str, Callable[[Generator], NDArray[np.int64]]] = {
    "uniform": lambda random: random.integers(0, COUNT, 3000),
    "skewed": lambda random: np.minimum(random.zipf(1.3, 3000), COUNT) - 1,
    "loop": lambda _random: np.arange(3000, dtype=np.int64) % 400,
    "walk": lambda random: np.abs(random.integers(-9, 10, 3000).cumsum()) % COUNT,
    "phases": lambda random: random.integers(0, 150, 3000) + np.arange(3000) // 1000 * 150,
}


# All pairs of the first five, each of the others above and below LRU.
PAIRS = [
    pair
    for pair in itertools.product(LEVEL_POLICIES, repeat=2)
    if "lru" in pair or not {*pair} & {*LEVEL_POLICIES[5:]}
]


def random_runs(seed: int) -> list[Run]:
    """Return runs of which half are among a few pages."""
    random = np.random.default_rng(seed)
    first = np.where(
        random.random(150) < 0.5, random.integers(0, 6, 150), random.integers(0, PAGES, 150)
    )
    counts = np.minimum(random.integers(1, 5, 150), PAGES - first)
    writes = random.random(150) < 0.4
    return list(zip(first.tolist(), counts.tolist(), writes.tolist(), strict=True))


@pytest.mark.parametrize("is_inclusive", [False, True])
@pytest.mark.parametrize("policies", PAIRS)
def test_two_levels_do_what_lists_do(policies: tuple[str, str], is_inclusive: bool) -> None:
    for seed, capacity in enumerate([(3, 8), (5, 5), (1, 1), (0, 7), (7, 0), (12, 12), (2, 30)]):
        runs = random_runs(seed)
        setup = TwoLevelSetup(PAGES, capacity, policies, is_inclusive=is_inclusive)
        with TwoLevel(setup) as cache:
            cache.add(native(runs))
            counts = cache.read()
        expected = two_level_counts(references(runs), capacity, policies, is_inclusive=is_inclusive)
        assert {name: getattr(counts, name) for name in expected} == expected, capacity


CAPACITIES = [(3, 8), (5, 5), (1, 1), (0, 7), (7, 0), (12, 12), (2, 30), (0, 0)]


@pytest.mark.parametrize("is_inclusive", [False, True])
@pytest.mark.parametrize("allocate", [True, False])
@pytest.mark.parametrize("writes", ["through", "back", "around"])
def test_ways_of_writing_do_what_versions_do(
    writes: str, allocate: bool, is_inclusive: bool
) -> None:
    for seed, (first, second) in enumerate(PAIRS):
        policies = (first, second)
        runs, capacity = random_runs(seed), CAPACITIES[seed % len(CAPACITIES)]
        setup = TwoLevelSetup(
            PAGES,
            capacity,
            policies,
            is_inclusive=is_inclusive,
            writes_allocate=allocate,
            writes=writes,
        )
        with TwoLevel(setup) as cache:
            cache.add(native(runs))
            found = pair_of(cache.read())
        # WHEN every copy of a page has a version, and only newer ones are written down
        model = Copies(capacity, policies, is_inclusive=is_inclusive)
        for page, is_write in references(runs):
            model.refer(page, is_write=bool(is_write), writes=writes, allocate=allocate)
        assert (found.pcm_writes, found.flash_writes) == tuple(model.written), (policies, capacity)
        assert found.base_writes == model.base_writes, (policies, capacity)
        assert found.dirty_pages == model.dirty(), (policies, capacity)


def test_writing_back_by_hand() -> None:
    # GIVEN one page of PCM above one of flash, and three pages written, the first one twice
    runs = [(0, 1, True), (0, 1, True), (1, 1, True), (2, 1, True)]
    written = {}
    for arrangement in (False, True):
        setup = TwoLevelSetup(PAGES, (1, 1), is_inclusive=arrangement, writes="back")
        with TwoLevel(setup) as cache:
            cache.add(native(runs))
            pair = pair_of(cache.read())
        levels = (pair.pcm_writes, pair.flash_writes)
        written[arrangement] = (*levels, pair.base_writes, pair.dirty_pages)
    # THEN exclusive levels demote 0 and 1, of which 0 goes on behind; inclusive ones write each
    # page on both levels as it comes, and let 0 and 1 go: 0 from PCM, which alone has its news
    assert written == {False: (4, 2, 1, 2), True: (4, 3, 2, 1)}


def test_the_time_counts_each_write_where_it_went() -> None:
    # GIVEN devices of 1, 10 and 100 us a page read and 2, 20 and 200 us a page written
    def device(us: float) -> Profile:
        return Profile("d", "", us, 2 * us, 1e9, 1e9, 0.0, 0.0, 1.0)

    devices = Devices(device(1), device(10), device(100), PAGE_BYTES)
    # WHEN of five reads two hit PCM and one flash, and 7, 3 and 4 pages are written
    pair = Pair(5, 6, 2, 1, 7, 3, 4, 2)
    # THEN the time is 2 + 10 + 200 us of reads and 14 + 60 + 800 us of writes
    assert pair.io_time_ns(devices) == pytest.approx(1086e3, rel=1e-6)
    assert pair.read_latency_ns(devices) == pytest.approx(212e3 / 5, rel=1e-6)


@pytest.mark.parametrize("allocate", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_plane_of_one_pass_is_the_simulation_of_each_pair(shape: str, allocate: bool) -> None:
    # GIVEN requests of a shape, and pairs of sizes from nothing to above the footprint
    random = np.random.default_rng(sum(map(ord, shape)))
    first = SHAPES[shape](random)
    runs = native(
        [
            (page, min(1 + page % 4, COUNT - page), bool(write))
            for page, write in zip(first.tolist(), random.random(3000) < 0.4, strict=True)
        ]
    )
    pairs = {(0, 0), (0, COUNT), (COUNT, 0), (COUNT, COUNT), (1, 1)}
    pairs |= {(int(a), int(b)) for a, b in random.integers(0, COUNT + 50, (25, 2))}
    pairs |= {(int(a), int(b)) for a, b in 2 ** random.integers(0, 10, (10, 2))}
    sizes = np.array(sorted({a for a, _ in pairs} | {a + b for a, b in pairs} - {0}), np.uint64)
    sizes = sizes[sizes > 0]
    with Curve(COUNT, sizes, writes_allocate=allocate) as curve:
        curve.add(runs)
        counts = exact_hits(curve.read(), sizes)
    for pair in sorted(pairs):
        setup = TwoLevelSetup(COUNT, pair, writes_allocate=allocate)
        closed = exclusive_pair(counts, pair, writes_allocate=allocate)
        assert closed == simulated_pair(setup, runs), pair


def test_policies_of_levels_are_read() -> None:
    assert parse_policies("") == ("lru", "lru")
    assert parse_policies("flash=fifo") == ("lru", "fifo")
    assert parse_policies(" pcm = s3-fifo , flash=arc") == ("s3-fifo", "arc")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arc", "'arc' is not pcm=POLICY"),
        ("hdd=arc", "'hdd=arc' is not pcm=POLICY"),
        ("pcm=lru,pcm=arc", "'pcm' is there twice"),
        ("pcm=optimum", "no level can have 'optimum'"),
        ("flash=", "no level can have ''"),
    ],
)
def test_policies_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_policies(text)


@pytest.mark.parametrize("requests", [[("read", 0, 1)], [("write", 0, 1)], [("write", 0, 9)] * 3])
@pytest.mark.parametrize("writes", ["back", "around"])
def test_only_writes(writes: str, requests: list[tuple[str, int, int]], tmp_path: Path) -> None:
    # GIVEN one request, or only writes, and sizes of nothing to more than there is
    folder = make_trace(tmp_path / "t", requests)
    words = ("--level-write", writes, "--sizes", "4KiB,1MiB", "--json")
    told = succeed("simulate", "cache", folder.path, *words)
    json.loads(told.stdout, parse_constant=pytest.fail)
    for row in rows_of(folder.table("simulations/cache_plane")):
        assert row["writes"] == writes
        assert math.isfinite(row["io_time_ns"])
        pages = sum(count for operation, _, count in requests if operation == "write")
        assert row["base_writes"] + row["dirty_pages"] <= pages
        if writes == "around" or not row["pcm_bytes"] + row["flash_bytes"]:
            assert (row["base_writes"], row["dirty_pages"]) == (pages, 0)


def test_the_command_has_the_plane_of_other_policies(tmp_path: Path) -> None:
    # GIVEN a page that is used again after another: two pages of FIFO lose it, LRU does not
    requests = [("read", block, 1) for block in (0, 1, 0, 2, 0)]
    folder = make_trace(tmp_path / "t", requests)
    words = ("--sizes", "8KiB", "--level-policy", "pcm=fifo")
    succeed("simulate", "cache", folder.path, *words)
    # THEN the last read misses PCM, and hits flash if there is any
    cells = {
        (row["pcm_bytes"] // PAGE_BYTES, row["flash_bytes"] // PAGE_BYTES): row
        for row in rows_of(folder.table("simulations/cache_plane"))
        if row["even_flash_bytes"] is None
    }
    assert {(row["pcm_policy"], row["flash_policy"]) for row in cells.values()} == {("fifo", "lru")}
    assert (cells[2, 0]["pcm_read_hits"], cells[2, 0]["flash_read_hits"]) == (1, 0)
    assert (cells[2, 2]["pcm_read_hits"], cells[2, 2]["flash_read_hits"]) == (1, 1)
    assert (cells[0, 2]["pcm_read_hits"], cells[0, 2]["flash_read_hits"]) == (0, 2)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # of one policy, where it has most of its hits
        (
            CacheOptions(policies=("sieve",), sizes_bytes=(2 * PAGE, 3 * PAGE)),
            "nine tenths of the hits that the largest size has at 12 KiB: sieve 66.7% missed",
        ),
        # where no write brings a page in, of the reads alone: for these the optimum is one
        (
            CacheOptions(writes="around", policies=("lru", "fifo"), sizes_bytes=(2 * PAGE,)),
            "policies do not differ at any size: 100.0% missed of the reads at 8 KiB",
        ),
    ],
)
def test_what_is_said_of_policies(tmp_path: Path, options: CacheOptions, expected: str) -> None:
    _, result = simulated(tmp_path, SMALL, **vars(options))
    assert result["headline"][1] == expected


def test_without_allocation_nothing_beats_the_optimum_that_is_named(tmp_path: Path) -> None:
    # GIVEN reads and writes of few pages, which writes evict or leave as they are
    for number, writes in enumerate(("around", "through", "back")):
        options: dict[str, Any] = {"writes": writes, "writes_allocate": False}
        folder, result = simulated(tmp_path / str(number), MIXED, **options)
        rows = rows_of(folder.table("simulations/cache_policies"))
        # THEN what is named of all policies is least of the optimum, at every size
        best = {r["capacity_bytes"]: r for r in rows if r["policy"] == "optimum"}
        ratios = [(r["read_miss_ratio"], best[r["capacity_bytes"]]) for r in rows]
        assert [one for one, most in ratios if one < most["read_miss_ratio"]] == []
        (line,) = [one for one in result["headline"] if one.startswith("policies")]
        assert " missed of the reads" in line
        named = line.split(": ")[1].split(", ")
        assert named[0].startswith("optimum ") or named[0].split()[1] == next(
            one.split()[1] for one in named if one.startswith("optimum ")
        )
