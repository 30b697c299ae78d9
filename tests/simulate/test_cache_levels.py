"""Two levels with any policies against lists, the plane against the simulator, and the option."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.simulate.cache_runs import PAGES, Run, native, references
from tests.simulate.cache_traces import make_trace
from tests.simulate.level_models import two_level_counts
from tracekit.cli import app
from tracekit.errors import UsageError
from tracekit.native.caches import TwoLevel, TwoLevelSetup
from tracekit.native.curves import Curve
from tracekit.simulate.cache import Options, simulate_cache
from tracekit.simulate.cache_levels import LEVEL_POLICIES, parse_policies
from tracekit.simulate.cache_plane import exclusive_pair, simulated_pair
from tracekit.simulate.hit_counts import exact_hits

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.random import Generator
    from numpy.typing import NDArray

PAGE = 4096
COUNT = 600  # pages of a shape
SHAPES: dict[str, Callable[[Generator], NDArray[np.int64]]] = {
    "uniform": lambda random: random.integers(0, COUNT, 3000),
    "skewed": lambda random: np.minimum(random.zipf(1.3, 3000), COUNT) - 1,
    "loop": lambda _random: np.arange(3000, dtype=np.int64) % 400,
    "walk": lambda random: np.abs(random.integers(-9, 10, 3000).cumsum()) % COUNT,
    "phases": lambda random: random.integers(0, 150, 3000) + np.arange(3000) // 1000 * 150,
}


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
@pytest.mark.parametrize("policies", list(itertools.product(LEVEL_POLICIES, repeat=2)))
def test_two_levels_do_what_lists_do(policies: tuple[str, str], is_inclusive: bool) -> None:
    for seed, capacity in enumerate([(3, 8), (5, 5), (1, 1), (0, 7), (7, 0), (12, 12), (2, 30)]):
        runs = random_runs(seed)
        setup = TwoLevelSetup(PAGES, capacity, policies, is_inclusive=is_inclusive)
        with TwoLevel(setup) as cache:
            cache.add(native(runs))
            counts = cache.read()
        expected = two_level_counts(references(runs), capacity, policies, is_inclusive=is_inclusive)
        assert {name: getattr(counts, name) for name in expected} == expected, capacity


@pytest.mark.parametrize("allocate", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_plane_of_one_pass_is_the_simulation_of_every_sampled_pair(
    shape: str, allocate: bool
) -> None:
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
    # WHEN all come from one pass
    with Curve(COUNT, sizes, writes_allocate=allocate) as curve:
        curve.add(runs)
        counts = exact_hits(curve.read(), sizes)
    # THEN each is what two explicit levels count
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


def test_a_sample_is_not_enough_for_other_policies(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", [("read", 0, 3)])
    with pytest.raises(UsageError, match="exclusive levels, arc above lru need every request"):
        simulate_cache(folder, Options(sample_pages=9, level_policies=("arc", "lru")))


def test_the_command_has_the_plane_of_other_policies(tmp_path: Path) -> None:
    # GIVEN a page that is used again after another: two pages of FIFO lose it, LRU does not
    requests = [("read", block, 1) for block in (0, 1, 0, 2, 0)]
    folder = make_trace(tmp_path / "t", requests)
    command = ["simulate", "cache", str(folder.path), "--sizes", "8KiB"]
    # WHEN PCM is FIFO
    told = CliRunner().invoke(app, [*command, "--level-policy", "pcm=fifo"])
    assert told.exit_code == 0, told.output
    # THEN its last read misses PCM, and hits flash if there is any
    cells = {
        (row["pcm_bytes"] // PAGE, row["flash_bytes"] // PAGE): row
        for row in pq.read_table(folder.table("simulations/cache_plane")).to_pylist()
        if row["even_flash_bytes"] is None
    }
    assert {(row["pcm_policy"], row["flash_policy"]) for row in cells.values()} == {("fifo", "lru")}
    assert (cells[2, 0]["pcm_read_hits"], cells[2, 0]["flash_read_hits"]) == (1, 0)
    assert (cells[2, 2]["pcm_read_hits"], cells[2, 2]["flash_read_hits"]) == (1, 1)
    assert (cells[0, 2]["pcm_read_hits"], cells[0, 2]["flash_read_hits"]) == (0, 2)
