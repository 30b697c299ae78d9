"""Miss ratio curves by volume against an LRU that is a list."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from msgspec import to_builtins

from tests.command_line import invoke
from tests.simulate.cache_models import distance
from tests.simulate.cache_traces import Request, make_trace
from tracekit._native.caches import RUN
from tracekit.errors import UsageError
from tracekit.model.cache import CacheOptions, simulate_cache
from tracekit.model.cache_passes import make_grid, volume_curves
from tracekit.model.miss_ratio_curve import Pages
from tracekit.report.page import report
from tracekit.store import TraceFolder

PAGE = 4096


def requests(count: int = 120) -> list[Request]:
    """Return requests with reuse; of three devices each gets every third."""
    return [
        ("write" if at % 4 == 1 else "read", (at * at + at // 7) % 19, 1 + at % 3)
        for at in range(count)
    ]


def curves(folder: TraceFolder) -> list[dict[str, Any]]:
    """Return the rows by volume."""
    table = pq.read_table(folder.table("simulations/cache_curve")).to_pylist()
    return [row for row in table if row["scope"] != "all"]


def expected(pages: list[tuple[int, int]], device: int, size: int, *, own: bool) -> float:
    """Return the miss ratio of a device's pages, given as (device, page) in their order."""
    stack: list[tuple[int, int]] = []
    missed = seen = 0
    for page in pages:
        if own and page[0] != device:
            continue
        if page[0] == device:
            found = stack[::-1].index(page) if page in stack else None
            missed += found is None or found >= size
            seen += 1
        stack = [other for other in stack if other != page] + [page]
    return missed / seen


@pytest.mark.parametrize("size", [0, 1, 5, 17, 40])
def test_a_volume_misses_what_a_list_misses(tmp_path: Path, size: int) -> None:
    folder = make_trace(tmp_path / "t", requests(), devices=3)
    simulate_cache(folder, CacheOptions(sizes_bytes=(size * PAGE,), policies=("lru",)))
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
    folder = make_trace(tmp_path / "t", requests(), devices=3)
    result = to_builtins(simulate_cache(folder, CacheOptions(policies=("lru",))))
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
    # WHEN one may be named
    told = invoke("simulate", "cache", folder.path, "--volumes", "1")
    assert told.exit_code == 0, told.output
    # THEN the others are counted and said
    assert told.stderr == "curves by volume: sdc; 2 others together\n"
    references = {row["device"]: row["references"] for row in curves(folder)}
    assert references == {"sdc": 180, None: 60}
    report(folder, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "2 other volumes" in page
    assert 'id="cache-volumes-shared' in page
    assert 'id="cache-volumes-own' in page


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
    # WHEN one or two of them may be named
    for most, scopes in (
        (1, {("one", "others"): 60, ("others", None): 60}),
        (2, {("one", "others"): 60, ("one", "all"): 40, ("others", None): 20}),
    ):
        result = to_builtins(simulate_cache(folder, CacheOptions(policies=("lru",), volumes=most)))
        # THEN each is told from the sum of all and from those without a name
        assert result["volumes"] == {"named": list(names[:most]), "others": 3 - most}
        table = pq.read_table(folder.table("simulations/cache_curve")).to_pylist()
        found = {(row["scope"], row["device"]): row["references"] for row in curves(folder)}
        assert found == scopes
        whole = {row["references"] for row in table if row["scope"] == row["role"] == "all"}
        assert whole == {120}
    report(folder, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "others, 60 references:" in page
    assert "all, 40 references:" in page
    assert "1 other volumes, 20 references:" not in page
    assert "1 other volume, 20 references:" in page


@pytest.mark.parametrize(
    ("devices", "words", "told"),
    [
        (3, [], "curves by volume left out, a sample has none: 3 devices\n"),
        (3, ["--volumes", "0"], ""),
        (1, [], ""),
    ],
)
def test_a_sample_says_that_it_has_no_curves_by_volume(
    tmp_path: Path, devices: int, words: list[str], told: str
) -> None:
    folder = make_trace(tmp_path / "t", requests(30), devices=devices)
    asked = ["simulate", "cache", str(folder.path), "--samples", "9", *words]
    done = invoke(*asked)
    assert done.exit_code == 0, done.output
    policies = "policies left out, a sample is not enough for them: lru, fifo, clock, s3-fifo, arc"
    assert done.stderr == f"{told}{policies}, optimum\n"


@pytest.mark.parametrize("volumes", [-1, 65])
def test_a_number_of_volumes_that_cannot_be(tmp_path: Path, volumes: int) -> None:
    folder = make_trace(tmp_path / "t", requests(3))
    with pytest.raises(UsageError, match=f"--volumes: {volumes}"):
        simulate_cache(folder, CacheOptions(volumes=volumes))


def test_more_volumes_than_a_pass_holds_are_counted_alike() -> None:
    # GIVEN eleven devices of ten pages each
    random = np.random.default_rng(5)
    runs = np.zeros(2000, np.dtype(RUN))
    device = random.integers(0, 11, 2000)
    runs["first"], runs["count"] = device * 10 + random.integers(0, 10, 2000), 1
    grid = make_grid(110, (20 * PAGE,), page_bytes=PAGE, price_ratios=[4.0])
    names = [f"d{at}" for at in range(11)]
    pages = Pages(names, np.arange(110), np.zeros(12, np.int64), np.arange(11) * 10)
    # WHEN nine are named
    found = volume_curves(runs, pages, grid=grid, writes_allocate=True, most=9)
    # THEN each has the hits of a list, and two are together
    assert [each.devices for each in found] == [1] * 9 + [2]
    stack: list[int] = []
    hits = dict.fromkeys(names, 0)
    for page in runs["first"].tolist():
        past = distance(stack, page)
        hits[f"d{page // 10}"] += past is not None and past < 20
        stack = [other for other in stack if other != page] + [page]
    for each in found[:9]:
        assert each.shared.at(20).sum() == hits.pop(str(each.name))
    assert found[9].shared.at(20).sum() == sum(hits.values())
