"""`tracekit simulate cache`: tables from a small trace, checked by hand, and bad input."""

import json
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec import to_builtins

from tests.command_line import invoke
from tests.simulate.cache_traces import Request, make_trace
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.model.cache import TABLES, CacheOptions, simulate_cache
from tracekit.store import TraceFolder
from tracekit.tables import CACHE_CURVE, CACHE_PLANE, CACHE_POLICIES, CACHE_SENSITIVITY

PAGE = 4096
FIVE_SIXTHS, TWO_THIRDS = 0.833333333, 0.666666667
# Blocks 0, 1, 2 are read, 0 is read again with two others used since, 2 is written at once after.
SMALL: list[Request] = [("read", 0, 3), ("read", 0, 1), ("write", 2, 1), ("write", 1000, 1)]


def rows(folder: TraceFolder, name: str) -> list[dict[str, Any]]:
    """Return a table's rows."""
    found: list[dict[str, Any]] = pq.read_table(folder.table(f"simulations/{name}")).to_pylist()
    return found


def ratios(folder: TraceFolder, cache: str, role: str, operation: str) -> dict[int, float]:
    """Return the miss ratio by size in pages, rounded."""
    return {
        row["capacity_bytes"] // PAGE: round(row["miss_ratio"], 9)
        for row in rows(folder, "cache_curve")
        if (row["cache"], row["role"], row["operation"]) == (cache, role, operation)
    }


def test_the_curves_of_a_small_trace(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", SMALL)
    result = to_builtins(simulate_cache(folder, CacheOptions()))
    assert (result["reads"], result["write_references"], result["pages"]) == (4, 2, 4)
    # Distances: 0, 1 and 2 are new, 0 has two others since, 2 has one (page 0), 1000 is new.
    assert ratios(folder, "shared", "all", "all") == {
        0: 1,
        1: 1,
        2: FIVE_SIXTHS,
        3: TWO_THIRDS,
        4: TWO_THIRDS,
    }
    assert ratios(folder, "shared", "all", "read") == {0: 1, 1: 1, 2: 1, 3: 3 / 4, 4: 3 / 4}
    assert ratios(folder, "shared", "fs", "write") == {0: 1, 1: 1, 2: 0, 3: 0, 4: 0}
    assert ratios(folder, "own", "journal", "write") == {0: 1, 1: 1, 2: 1, 3: 1, 4: 1}


def test_writes_that_pass_by_make_no_page_younger(tmp_path: Path) -> None:
    # GIVEN a page that is read, two others that are written, and the page again
    folder = make_trace(tmp_path / "t", [("read", 0, 1), ("write", 1, 2), ("read", 0, 1)])
    simulate_cache(folder, CacheOptions(writes_allocate=False))
    # THEN one page is enough to hit
    assert ratios(folder, "shared", "all", "read") == {0: 1, 1: 0.5, 2: 0.5, 3: 0.5}
    simulate_cache(folder, CacheOptions())
    assert ratios(folder, "shared", "all", "read") == {0: 1, 1: 1, 2: 1, 3: 0.5}


def test_the_plane_of_a_small_trace(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", SMALL)
    simulate_cache(folder, CacheOptions(sizes_bytes=(PAGE, 2 * PAGE)))
    cells = {
        (row["pcm_bytes"] // PAGE, row["flash_bytes"] // PAGE): row
        for row in rows(folder, "cache_plane")
        if row["even_flash_bytes"] is None
    }
    assert sorted(cells) == [(pcm, flash) for pcm in (0, 1, 2) for flash in (0, 1, 2)]
    assert cells[0, 0]["read_latency_avg_ns"] == 919_000
    # One page of PCM above two of flash: the second read of 0 is served by flash. PCM takes in all
    # six references, the last five of which demote a page.
    cell = cells[1, 2]
    assert (cell["pcm_read_hits"], cell["flash_read_hits"]) == (0, 1)
    assert (cell["pcm_writes"], cell["flash_writes"]) == (6, 5)
    assert cell["read_latency_avg_ns"] == pytest.approx((3 * 919_000 + 108_000) / 4)
    busy_us = 3 * 919 + 108 + 6 * 128.3 + 5 * 37.1 + 2 * 133
    assert cell["io_time_ns"] == pytest.approx(busy_us * 1000)
    assert cell["price_in_flash_bytes"] == (4 * 1 + 2) * PAGE


def test_lines_of_equal_cost_cost_the_same(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", [("read", 0, 640)])
    simulate_cache(folder, CacheOptions(sizes_bytes=(640 * PAGE,)))
    line = [row for row in rows(folder, "cache_plane") if row["even_flash_bytes"]]
    assert [row["pcm_bytes"] // PAGE for row in line] == [0, 20, 40, 60, 80, 100, 120, 140, 160]
    assert {row["price_in_flash_bytes"] for row in line} == {640 * PAGE}


@pytest.mark.parametrize("allocate", [True, False])
def test_one_pass_is_the_explicit_simulation_of_two_levels(tmp_path: Path, allocate: bool) -> None:
    # GIVEN a mixed trace over two devices
    requests: list[Request] = [
        ("write" if number % 3 else "read", number * number % 97 * 3, 1 + number % 7)
        for number in range(400)
    ]
    folder = make_trace(tmp_path / "t", requests, devices=2)
    options = CacheOptions(
        sizes_bytes=tuple(pages * PAGE for pages in (1, 7, 40, 200, 500)), writes_allocate=allocate
    )
    simulate_cache(folder, options)
    closed = rows(folder, "cache_plane")
    # WHEN each pair is simulated reference by reference
    explicit = simulate_pairs(folder, closed, allocate=allocate)
    # THEN all counts are the same
    assert len(closed) > 50
    assert [{key: row[key] for key in explicit[0]} for row in closed] == explicit


def simulate_pairs(
    folder: TraceFolder, cells: list[dict[str, Any]], *, allocate: bool
) -> list[dict[str, int]]:
    """Return hits and writes of each pair of sizes from the explicit simulator."""
    from tracekit._native.caches import PageRuns, TwoLevelSetup
    from tracekit.model.block_orders import read_blocks
    from tracekit.model.cache_plane import simulated_pair
    from tracekit.model.miss_ratio_curve import Accesses, page_keys

    touched = read_blocks(folder.table("blocks"))
    pages = page_keys(touched, PAGE)
    accesses = Accesses(folder.table("requests"), PAGE, touched.device_names, pages.first_keys)
    with PageRuns(pages.keys) as ranks:
        (runs,) = (ranks.find(part) for part in accesses.read())
    found = []
    for cell in cells:
        sizes = (cell["pcm_bytes"] // PAGE, cell["flash_bytes"] // PAGE)
        setup = TwoLevelSetup(len(pages.keys), sizes, writes_allocate=allocate)
        pair = simulated_pair(setup, runs)
        names = ("pcm_read_hits", "flash_read_hits", "pcm_writes", "flash_writes")
        found.append({name: round(getattr(pair, name)) for name in names})
    return found


def test_policies_that_are_left_out_are_named(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", SMALL)
    assert to_builtins(simulate_cache(folder, CacheOptions()))["left_out"] == {
        "impossible": 0,
        "policies": [],
        "volumes": 0,
    }
    result = to_builtins(
        simulate_cache(folder, CacheOptions(sample_pages=9, policies=("lru", "arc")))
    )
    assert result["left_out"]["policies"] == ["lru", "arc"]
    assert rows(folder, "cache_policies") == []


def test_larger_pages_hold_several_blocks(tmp_path: Path) -> None:
    # GIVEN blocks 6 to 9 in one request, and blocks 1 and 7 later: pages of four blocks
    folder = make_trace(tmp_path / "t", [("read", 6, 4), ("read", 1, 1), ("read", 7, 1)])
    result = to_builtins(simulate_cache(folder, CacheOptions(page_bytes=4 * PAGE)))
    # THEN pages 1 and 2, 0, and 1 again after two others
    assert (result["pages"], result["reads"]) == (3, 4)
    assert ratios(folder, "shared", "all", "read") == {0: 1, 4: 1, 8: 1, 12: 3 / 4}


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param([("read", 5, 1)], id="one request"),
        pytest.param([("write", 5, 2), ("write", 6, 1)], id="only writes"),
        pytest.param([("flush", 0, 0), ("read", 5, 1)], id="a flush"),
    ],
)
@pytest.mark.parametrize(
    "options",
    [
        CacheOptions(),
        CacheOptions(writes="back"),
        CacheOptions(writes="around"),
        CacheOptions(levels="inclusive"),
        CacheOptions(sizes_bytes=(0, 1, 1 << 40)),
        CacheOptions(sample_rate=1e-6),
        CacheOptions(sample_pages=1),
    ],
)
def test_no_table_has_a_number_that_is_none(
    tmp_path: Path, requests: list[Request], options: CacheOptions
) -> None:
    # GIVEN next to nothing to cache, no capacity, or far too much
    folder = make_trace(tmp_path / "t", requests)
    simulate_cache(folder, options)
    # THEN every number is one, and ratios are ratios
    schemas = (CACHE_CURVE, CACHE_POLICIES, CACHE_PLANE, CACHE_SENSITIVITY)
    for name, schema in zip(TABLES, schemas, strict=True):
        assert pq.read_schema(folder.table(f"simulations/{name}")).equals(schema)
        for row in rows(folder, name):
            numbers = {key: value for key, value in row.items() if isinstance(value, float)}
            assert all(math.isfinite(value) and value >= 0 for value in numbers.values())
            assert all(value <= 1 for key, value in numbers.items() if "ratio" in key)


@pytest.mark.parametrize("requests", [[], [("flush", 0, 0)]], ids=["no request", "a flush"])
@pytest.mark.parametrize(
    "options",
    [CacheOptions(), CacheOptions(sample_rate=0.1), CacheOptions(level_policies=("arc", "fifo"))],
)
def test_a_trace_without_reads_and_writes_is_refused(
    tmp_path: Path, requests: list[Request], options: CacheOptions
) -> None:
    folder = make_trace(tmp_path / "t", requests)
    with pytest.raises(InputError, match="no reads and no writes"):
        simulate_cache(folder, options)
    assert not (folder.path / "simulations").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (CacheOptions(page_bytes=5000), "--page: 5000"),
        (CacheOptions(page_bytes=512), "--page: 512"),
        (CacheOptions(policies=("lru", "mru")), "--policy: there is no 'mru'"),
        (CacheOptions(sample_rate=0.0), "--sample-rate: 0.0"),
        (CacheOptions(sample_pages=0), "--samples: 0"),
        (CacheOptions(sample_pages=9, writes="around"), "a sample cannot tell"),
        (CacheOptions(sample_pages=9, levels="inclusive"), "inclusive levels need every"),
        (CacheOptions(flash="ssd-emcl"), "no device profile 'ssd-emcl'"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, options: CacheOptions, message: str) -> None:
    folder = make_trace(tmp_path / "t", SMALL)
    with pytest.raises(UsageError, match=message):
        simulate_cache(folder, options)


def test_blocks_of_another_trace_are_refused(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", SMALL)
    other = make_trace(tmp_path / "other", SMALL[:1])
    folder.table("blocks").write_bytes(other.table("blocks").read_bytes())
    with pytest.raises(TracekitError, match="lacks"):
        simulate_cache(folder, CacheOptions())


def test_a_trace_without_reuse_needs_no_cache(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", [("read", 0, 3)])
    said = to_builtins(simulate_cache(folder, CacheOptions()))["headline"]
    assert said[0] == "none of the 3 page references can hit: no cache helps"


def test_the_command_says_what_it_found(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", SMALL)
    told = invoke("simulate", "cache", folder.path, "--sizes", "8KiB,12KiB")
    assert told.exit_code == 0, told.output
    assert told.stdout.splitlines()[:2] == [
        "an LRU cache of 12 KiB misses 66.7% of the 6 page references: nine tenths of all possible"
        " hits; no size misses less than 66.7%",
        "policies differ most at 8 KiB: optimum 66.7%, arc 83.3%, clock 83.3%, fifo 83.3%,"
        " lru 83.3%, s3-fifo 83.3% missed",
    ]
    assert told.stderr == ""
    sampled = invoke("simulate", "cache", folder.path, "--samples", "9", "--policy", "lru,arc")
    assert sampled.stderr == "policies left out, a sample is not enough for them: lru, arc\n"
    as_json = invoke("simulate", "cache", folder.path, "--json")
    assert json.loads(as_json.stdout)["pages"] == 4
    written = json.loads((folder.path / "simulations" / "cache.json").read_text())
    assert written == json.loads(as_json.stdout)
