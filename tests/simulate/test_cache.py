"""`tracekit simulate cache`: small traces by hand, volumes against lists, changed devices."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from msgspec import to_builtins

from tests.command_line import invoke, refused, succeed
from tests.report.folder import section_of
from tests.simulate.traces import Request, make_trace
from tests.traces import json_of, recencies, rows_of, written
from tracekit._native.caches import RUN
from tracekit.devices import load_profiles
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.model.cache import TABLES, CacheOptions, simulate_cache
from tracekit.model.cache_passes import make_grid, volume_curves
from tracekit.model.cache_plane import Devices, parse_changes
from tracekit.model.changes import Change
from tracekit.model.miss_ratio_curve import Pages
from tracekit.report.sections import caches
from tracekit.store import TraceFolder
from tracekit.tables import CACHE_CURVE, CACHE_PLANE, CACHE_POLICIES, CACHE_SENSITIVITY

PAGE = 4096
FIVE_SIXTHS, TWO_THIRDS = 0.833333333, 0.666666667
# Blocks 0, 1, 2 are read, 0 is read again with two others used since, 2 is written at once after.
SMALL: list[Request] = [("read", 0, 3), ("read", 0, 1), ("write", 2, 1), ("write", 1000, 1)]


def rows(folder: TraceFolder, name: str) -> list[dict[str, Any]]:
    """Return a table's rows."""
    return rows_of(folder.table(f"simulations/{name}"))


def simulated(
    tmp_path: Path, requests: Sequence[Request], *, devices: int = 1, **options: Any
) -> tuple[TraceFolder, dict[str, Any]]:
    """Simulate a cache on a new trace; return its folder and the result."""
    folder = make_trace(tmp_path / "t", requests, devices=devices)
    return folder, to_builtins(simulate_cache(folder, CacheOptions(**options)))


def ratios(folder: TraceFolder, cache: str, role: str, operation: str) -> dict[int, float]:
    """Return the miss ratio by size in pages, rounded."""
    return {
        row["capacity_bytes"] // PAGE: round(row["miss_ratio"], 9)
        for row in rows(folder, "cache_curve")
        if (row["cache"], row["role"], row["operation"]) == (cache, role, operation)
    }


def test_the_curves_of_a_small_trace(tmp_path: Path) -> None:
    folder, result = simulated(tmp_path, SMALL)
    assert (result["reads"], result["write_references"], result["pages"]) == (4, 2, 4)
    # Distances: 0, 1 and 2 are new, 0 has two others since, 2 has one (page 0), 1000 is new.
    every = ratios(folder, "shared", "all", "all")
    assert list(every.items()) == [*enumerate((1, 1, FIVE_SIXTHS, TWO_THIRDS, TWO_THIRDS))]
    assert ratios(folder, "shared", "all", "read") == {0: 1, 1: 1, 2: 1, 3: 3 / 4, 4: 3 / 4}
    assert ratios(folder, "shared", "fs", "write") == {0: 1, 1: 1, 2: 0, 3: 0, 4: 0}
    assert ratios(folder, "own", "journal", "write") == {0: 1, 1: 1, 2: 1, 3: 1, 4: 1}


def test_writes_that_pass_by_make_no_page_younger(tmp_path: Path) -> None:
    # GIVEN a page that is read, two others that are written, and the page again
    folder, _ = simulated(
        tmp_path, [("read", 0, 1), ("write", 1, 2), ("read", 0, 1)], writes_allocate=False
    )
    # THEN one page is enough to hit
    assert ratios(folder, "shared", "all", "read") == {0: 1, 1: 0.5, 2: 0.5, 3: 0.5}
    simulate_cache(folder, CacheOptions())
    assert ratios(folder, "shared", "all", "read") == {0: 1, 1: 1, 2: 1, 3: 0.5}


def test_the_plane_of_a_small_trace(tmp_path: Path) -> None:
    folder, _ = simulated(tmp_path, SMALL, sizes_bytes=(PAGE, 2 * PAGE))
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
    folder, _ = simulated(tmp_path, [("read", 0, 640)], sizes_bytes=(640 * PAGE,))
    line = [row for row in rows(folder, "cache_plane") if row["even_flash_bytes"]]
    assert [row["pcm_bytes"] // PAGE for row in line] == [0, 20, 40, 60, 80, 100, 120, 140, 160]
    assert {row["price_in_flash_bytes"] for row in line} == {640 * PAGE}


@pytest.mark.parametrize("allocate", [True, False])
def test_one_pass_is_the_explicit_simulation_of_two_levels(tmp_path: Path, allocate: bool) -> None:
    requests: list[Request] = [
        ("write" if number % 3 else "read", number * number % 97 * 3, 1 + number % 7)
        for number in range(400)
    ]
    sizes = tuple(pages * PAGE for pages in (1, 7, 40, 200, 500))
    options = {"sizes_bytes": sizes, "writes_allocate": allocate}
    folder, _ = simulated(tmp_path, requests, devices=2, **options)
    closed = rows(folder, "cache_plane")
    explicit = simulate_pairs(folder, closed, allocate=allocate)
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
    folder, result = simulated(tmp_path, SMALL)
    assert result["left_out"] == {"impossible": 0, "policies": [], "volumes": 0, "small_sizes": 0}
    # AND of a sample the sizes for which it has too few pages, all but no cache
    options = CacheOptions(sample_pages=9, policies=("lru", "arc"))
    result = to_builtins(simulate_cache(folder, options))
    sizes = {row["capacity_bytes"] for row in rows(folder, "cache_policies")}
    assert sizes == {0}
    assert result["left_out"]["small_sizes"] > 0


def test_larger_pages_hold_several_blocks(tmp_path: Path) -> None:
    # GIVEN blocks 6 to 9 in one request, and blocks 1 and 7 later: pages of four blocks
    folder, result = simulated(
        tmp_path, [("read", 6, 4), ("read", 1, 1), ("read", 7, 1)], page_bytes=4 * PAGE
    )
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
        CacheOptions(sizes_bytes=(0, PAGE, 1 << 40)),
        CacheOptions(sample_rate=1e-6),
        CacheOptions(sample_pages=1),
    ],
)
def test_numbers_are_finite(tmp_path: Path, requests: list[Request], options: CacheOptions) -> None:
    folder = make_trace(tmp_path / "t", requests)
    simulate_cache(folder, options)
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
def test_no_reads_and_writes(
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
        (CacheOptions(volumes=-1), "--volumes: -1"),
        (CacheOptions(volumes=65), "--volumes: 65"),
        (
            CacheOptions(sample_pages=9, level_policies=("arc", "lru")),
            "exclusive levels, arc above lru need every request",
        ),
        (
            CacheOptions(sample_pages=9, level_writes="back"),
            "exclusive levels, write-back need every request",
        ),
        (CacheOptions(level_writes="down"), "--level-write: there is no 'down'"),
        (CacheOptions(sizes_bytes=(1 << 20, 4095)), "--sizes: 4095 bytes are less than a page"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, options: CacheOptions, message: str) -> None:
    folder = make_trace(tmp_path / "t", SMALL)
    with pytest.raises(UsageError, match=message):
        simulate_cache(folder, options)


def test_blocks_of_another_trace_are_rejected(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", SMALL)
    other = make_trace(tmp_path / "other", SMALL[:1])
    folder.table("blocks").write_bytes(other.table("blocks").read_bytes())
    with pytest.raises(TracekitError, match="lacks"):
        simulate_cache(folder, CacheOptions())


@pytest.mark.parametrize(
    ("blocks", "line", "expected"),
    [
        (3, 0, "none of the 3 page references can hit: no cache helps"),
        (100, -2, "for no budget and under no change of a device does PCM save 0.05% of the mean"),
    ],
)
def test_what_never_pays_is_reported(tmp_path: Path, blocks: int, line: int, expected: str) -> None:
    _, result = simulated(tmp_path, [("read", 0, blocks)])
    assert result["headline"][line].startswith(expected)


def test_the_command_says_what_it_found(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", SMALL)
    done = succeed("simulate", "cache", folder.path, "--sizes", "8KiB,12KiB")
    assert done.stdout.splitlines()[:2] == [
        "an LRU cache of 12 KiB misses 66.7% of the 6 page references: nine tenths of all possible"
        " hits; no size misses less than 66.7%",
        "policies differ most at 8 KiB: lirs 66.7%, optimum 66.7%, w-tinylfu 66.7%, 2q 83.3%,"
        " arc 83.3%, clock 83.3%, fifo 83.3%, lru 83.3%, s3-fifo 83.3%, sieve 83.3% missed",
    ]
    assert done.stderr == ""
    sampled = invoke("simulate", "cache", folder.path, "--samples", "9", "--policy", "lru,arc")
    assert sampled.stdout.startswith("the sample has only 4 pages: what follows is no more than a")
    assert "of the policies' sizes left out: the sample has too few pages" in sampled.stderr
    told = json.loads(invoke("simulate", "cache", folder.path, "--json").stdout)
    assert told["pages"] == 4
    assert told == json_of(folder.path / "simulations" / "cache.json")


def requests(count: int = 120) -> list[Request]:
    """Return requests with reuse; of three devices each gets every third."""
    return [
        ("write" if at % 4 == 1 else "read", (at * at + at // 7) % 19, 1 + at % 3)
        for at in range(count)
    ]


def curves(folder: TraceFolder) -> list[dict[str, Any]]:
    """Return the rows by volume."""
    table = rows_of(folder.table("simulations/cache_curve"))
    return [row for row in table if row["scope"] != "all"]


def expected(pages: list[tuple[int, int]], device: int, size: int, *, own: bool) -> float:
    """Return the miss ratio of a device's pages, given as (device, page) in their order."""
    cached = [page for page in pages if page[0] == device or not own]
    backs = zip(cached, recencies(cached), strict=True)
    missed = [not 0 < back <= size for page, back in backs if page[0] == device]
    return sum(missed) / len(missed)


@pytest.mark.parametrize("size", [0, 1, 5, 17, 40])
def test_a_volume_misses_what_a_list_misses(tmp_path: Path, size: int) -> None:
    folder, _ = simulated(
        tmp_path, requests(), devices=3, sizes_bytes=(size * PAGE,), policies=("lru",)
    )
    pages = [
        (at % 3, page)
        for at, (_, first, count) in enumerate(requests())
        for page in range(first, first + count)
    ]
    found = {
        (row["cache"], row["device"]): row["miss_ratio"]
        for row in curves(folder)
        if row["operation"] == "all" and row["capacity_bytes"] == size * PAGE
    }
    assert found == {
        (cache, f"sd{'abc'[device]}"): pytest.approx(
            expected(pages, device, size, own=cache == "own")
        )
        for cache in ("shared", "own")
        for device in range(3)
    }


def test_reads_and_writes_of_volumes_add_up(tmp_path: Path) -> None:
    folder, result = simulated(tmp_path, requests(), devices=3, policies=("lru",))
    at_none = {
        (row["cache"], row["device"], row["operation"]): row["references"] for row in curves(folder)
    }
    for cache in ("shared", "own"):
        reads = sum(at_none[cache, f"sd{name}", "read"] for name in "abc")
        writes = sum(at_none[cache, f"sd{name}", "write"] for name in "abc")
        assert (reads, writes) == (result["reads"], result["write_references"])


def test_the_devices_beyond_the_largest_are_together(tmp_path: Path) -> None:
    # GIVEN three devices of which the third has the longest requests
    asked: list[Request] = [("read", at % 5, (1, 2, 9)[at % 3]) for at in range(60)]
    folder = make_trace(tmp_path / "t", asked, devices=3)
    told = succeed("simulate", "cache", folder.path, "--volumes", "1")
    assert told.stderr == "curves by volume: sdc; 2 others together\n"
    references = {row["device"]: row["references"] for row in curves(folder)}
    assert references == {"sdc": 180, None: 60}
    shown = repr(section_of(caches.cache, folder).parts)
    for text in ("2 other volumes", "cache-volumes-shared", "cache-volumes-own"):
        assert text in shown


@pytest.mark.parametrize(
    ("options", "devices"),
    [(CacheOptions(), 1), (CacheOptions(volumes=0), 3), (CacheOptions(sample_pages=9), 3)],
)
def test_there_are_no_curves_by_volume(tmp_path: Path, options: CacheOptions, devices: int) -> None:
    folder = make_trace(tmp_path / "t", requests(30), devices=devices)
    result = to_builtins(simulate_cache(folder, options))
    assert result["volumes"] == {"named": [], "others": 0}
    assert curves(folder) == []


def test_a_device_may_be_called_others_or_all(tmp_path: Path) -> None:
    # GIVEN three devices with the words that a table of all and others might use
    asked: list[Request] = [("read", at % 5, (3, 2, 1)[at % 3]) for at in range(60)]
    names = ("others", "all", "2 others")
    folder = make_trace(tmp_path / "t", asked, devices=3, names=names)
    for most, scopes in (
        (1, {("one", "others"): 60, ("others", None): 60}),
        (2, {("one", "others"): 60, ("one", "all"): 40, ("others", None): 20}),
    ):
        result = to_builtins(simulate_cache(folder, CacheOptions(policies=("lru",), volumes=most)))
        # THEN each is told from the sum of all and from those without a name
        assert result["volumes"] == {"named": list(names[:most]), "others": 3 - most}
        table = rows_of(folder.table("simulations/cache_curve"))
        found = {(row["scope"], row["device"]): row["references"] for row in curves(folder)}
        assert found == scopes
        whole = {row["references"] for row in table if row["scope"] == row["role"] == "all"}
        assert whole == {120}
    shown = repr(section_of(caches.cache, folder).parts)
    assert "1 other volumes, 20 references:" not in shown
    for text in ("others, 60 references:", "all, 40 references:", "1 other volume, 20 references:"):
        assert text in shown


@pytest.mark.parametrize(
    ("devices", "words", "told"),
    [
        (3, [], "curves by volume left out, a sample has none: 3 devices\n"),
        (3, ["--volumes", "0"], ""),
        (1, [], ""),
    ],
)
def test_a_sample_has_no_volumes(tmp_path: Path, devices: int, words: list[str], told: str) -> None:
    folder = make_trace(tmp_path / "t", requests(30), devices=devices)
    asked = ["simulate", "cache", str(folder.path), "--samples", "9", *words]
    done = succeed(*asked)
    count = 10 * (5 + (devices > 1))  # of each policy all
    sizes = f"{count} of the policies' sizes left out: the sample has too few pages"
    assert done.stderr == f"{told}{sizes} for such caches\n"


def test_more_volumes_than_a_pass_holds_are_counted_alike() -> None:
    # GIVEN eleven devices of ten pages each
    random = np.random.default_rng(5)
    runs = np.zeros(2000, np.dtype(RUN))
    device = random.integers(0, 11, 2000)
    runs["first"], runs["count"] = device * 10 + random.integers(0, 10, 2000), 1
    grid = make_grid(110, (20 * PAGE,), page_bytes=PAGE, price_ratios=[4.0])
    names = [f"d{at}" for at in range(11)]
    pages = Pages(names, np.arange(110), np.zeros(12, np.int64), np.arange(11) * 10)
    found = volume_curves(runs, pages, grid=grid, writes_allocate=True, most=9)
    # THEN each has the hits of a list, and two are together
    assert [each.devices for each in found] == [1] * 9 + [2]
    used = runs["first"].tolist()
    hits = dict.fromkeys(names, 0)
    for page, back in zip(used, recencies(used), strict=True):
        hits[f"d{page // 10}"] += 0 < back <= 20
    for each in found[:9]:
        assert each.shared.at(20).sum() == hits.pop(str(each.name))
    assert found[9].shared.at(20).sum() == sum(hits.values())


MIXED: list[Request] = [
    ("write" if number % 4 == 3 else "read", number * number % 97, 1 + number % 5)
    for number in range(400)
]


def test_a_split_by_hand(tmp_path: Path) -> None:
    # GIVEN a page that is read 100 times, and money for eight pages of flash or two of PCM
    folder, _ = simulated(
        tmp_path, [("read", 0, 1)] * 100, sizes_bytes=(8 * PAGE,), changes=parse_changes(())
    )
    found = {
        (row["parameter"], row["factor"]): row
        for row in rows(folder, "cache_sensitivity")
        if row["measure"] == "read_latency_avg"
    }
    # THEN 99 reads hit in a page of PCM (four pages' money) or of flash; the first is at 919 us
    alone_ns = (919 + 99 * 108) * 1e3 / 100
    told = found[None, 1.0]
    assert (told["pcm_bytes"], told["flash_bytes"]) == (PAGE, 4 * PAGE)
    assert told["best_ns"] == pytest.approx((919 + 99 * 6.7) * 1e3 / 100)
    assert {round(row["flash_alone_ns"]) for row in found.values()} == {round(alone_ns)}
    # AND half of 6.7 us is 3.35 us; twice the price leaves one page of PCM and no flash
    half = found["pcm.read_latency_us", 0.5]
    assert half["best_ns"] == pytest.approx((919 + 99 * 3.35) * 1e3 / 100)
    assert half["gain_ratio"] == pytest.approx(1 - half["best_ns"] / alone_ns)
    dear = found["pcm.price_per_gb", 2.0]
    assert (dear["pcm_bytes"], dear["flash_bytes"], dear["pcm_price_in_flash"]) == (PAGE, 0, 8)


def test_the_unchanged_rows_are_the_best_of_the_lines_of_the_plane(tmp_path: Path) -> None:
    folder, _ = simulated(tmp_path, MIXED)
    lines: dict[int, list[dict[str, Any]]] = {}
    for row in rows(folder, "cache_plane"):
        if row["even_flash_bytes"] is not None:
            lines.setdefault(row["even_flash_bytes"], []).append(row)
    plain = [row for row in rows(folder, "cache_sensitivity") if row["parameter"] is None]
    assert len(plain) == 2 * len(lines) > 10
    for row in plain:
        line = lines[row["even_flash_bytes"]]
        splits = [cell for cell in line if cell["pcm_bytes"] or cell is line[0]]
        values = [cell[f"{row['measure']}_ns"] for cell in splits]
        assert (row["best_ns"], row["flash_alone_ns"]) == (min(values), values[0])


@pytest.mark.parametrize(
    "change", parse_changes(["flash.price_per_gb=0.3", "base.read_latency_us=9"])
)
def test_a_change_is_the_simulation_of_the_changed_profile(tmp_path: Path, change: Change) -> None:
    # GIVEN a file of profiles in which the change was made by hand
    folder, _ = simulated(tmp_path, MIXED, changes=(change,))
    changed = [row for row in rows(folder, "cache_sensitivity") if row["parameter"]]
    name = {"pcm": "ssd-pcm", "flash": "ssd-emlc", "base": "network-storage"}[str(change.device)]
    own = written(tmp_path / "own.toml", _profile(name, change))
    simulate_cache(folder, CacheOptions(profiles=own, changes=()))
    keys = [
        "measure",
        "even_flash_bytes",
        "pcm_bytes",
        "flash_bytes",
        "pcm_price_in_flash",
        "best_ns",
    ]
    expected = [tuple(row[key] for key in keys) for row in rows(folder, "cache_sensitivity")]
    found = [tuple(row[key] for key in keys) for row in changed]
    assert [row[:4] for row in found] == [row[:4] for row in expected]
    for row, other in zip(found, expected, strict=True):
        assert row[4:] == pytest.approx(other[4:])


def _profile(name: str, change: Change) -> str:
    profile = load_profiles()[name]
    values = {key: getattr(profile, key) for key in profile.__dataclass_fields__ if key[0] != "n"}
    values = {key: value for key, value in values.items() if isinstance(value, float)}
    values[change.parameter] *= change.factor
    if change.parameter != "price_per_gb":
        values[change.parameter.replace("latency_us", "mib_s")] /= change.factor
    return f"[{name}]\n" + "".join(f"{key} = {value!r}\n" for key, value in values.items())


def test_a_large_page_takes_the_factor_too() -> None:
    known = load_profiles()
    devices = Devices(known["ssd-pcm"], known["ssd-emlc"], known["network-storage"], 1 << 20)
    for level in ("pcm", "flash", "base"):
        changed = devices.changed(Change(level, "read_latency_us", 0.001))
        before, after = getattr(devices, level), getattr(changed, level)
        assert changed.read_us(after) == pytest.approx(devices.read_us(before) / 1000)
        assert changed.write_us(after) == devices.write_us(before)
    assert replace(devices, page_bytes=PAGE).read_us(devices.pcm) == pytest.approx(6.7)


@pytest.mark.parametrize(
    ("requests", "options", "column", "expected"),
    [
        # only writes have no read latency but a time
        ([("write", 5, 9), ("write", 6, 1)], {}, "measure", {"io_time"}),
        # inclusive levels are simulated for changed prices
        (MIXED, {"levels": "inclusive", "policies": ("lru",)}, "pcm_price_in_flash", {2, 4, 8}),
    ],
)
def test_values_of_the_sensitivity(
    tmp_path: Path,
    requests: list[Request],
    options: dict[str, Any],
    column: str,
    expected: set[Any],
) -> None:
    folder, _ = simulated(tmp_path, requests, **options)
    assert {row[column] for row in rows(folder, "cache_sensitivity")} == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pcm.read_latency_us", "there is no parameter"),
        ("pcm.read_latncy_us=2", "there is no parameter 'pcm.read_latncy_us'"),
        ("disk.price_per_gb=2", "there is no parameter 'disk.price_per_gb'"),
        ("base.price_per_gb=2", "what is behind the caches is not bought"),
        ("pcm.price_per_gb=", "'' in 'pcm.price_per_gb=' is not a number"),
        ("pcm.price_per_gb=0", "0 in 'pcm.price_per_gb=0' is not from 0.001 to 1000"),
        ("pcm.price_per_gb=nan", "nan in .* is not from"),
        ("flash.price_per_gb=" + ",".join(map(str, range(1, 99))), "104 changes are more than 64"),
    ],
)
def test_changes_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_changes([text])


def test_the_command_takes_changes_and_says_the_range(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", [("read", 0, 1)] * 100)
    words = ("simulate", "cache", folder.path)
    told = succeed(*words, "--sizes", "32KiB", "--vary", "flash.read_latency_us=4")
    read, time = told.stdout.splitlines()[-2:]
    assert read.startswith("for the price of ")
    assert "of the mean read latency; with one parameter changed, from" in read
    assert "of the aggregate I/O time" in time
    parameters = {row["parameter"] for row in rows(folder, "cache_sensitivity")}
    assert "flash.read_latency_us" in parameters
    refused(invoke(*words, "--vary", "x=1"))
