"""The section on caches: its numbers by hand, and the page with it in every form."""

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests.report.folder import numbers
from tests.simulate.cache_traces import Request, make_trace
from tracekit.model.cache import CacheOptions, simulate_cache
from tracekit.report.inputs import Inputs
from tracekit.report.page import report
from tracekit.report.section import Section
from tracekit.report.sections import caches
from tracekit.report.sections.caches import time_unit
from tracekit.units import MIB

MIXED: list[Request] = [
    ("write" if number % 4 == 3 else "read", number * 37 % 90 + 950, 1 + number % 5)
    for number in range(300)
]


def test_a_curve_has_the_size_of_half_of_its_hits() -> None:
    table = pd.DataFrame(
        {
            "role": ["journal"] * 4,
            "capacity_bytes": [0, MIB, 2 * MIB, 4 * MIB],
            "miss_ratio": [1.0, 1.0, 0.25, 0.25],
        }
    )
    assert numbers(caches.describe_curve(table)) == ["2 MiB", "25.0 %"]


def test_policies_are_compared_where_lru_is_furthest_from_the_optimum() -> None:
    table = pd.DataFrame(
        {
            "policy": ["lru", "optimum", "arc"] * 2,
            "capacity_bytes": [MIB] * 3 + [2 * MIB] * 3,
            "miss_ratio": [0.9, 0.5, 0.7, 0.4, 0.4, 0.4],
        }
    )
    lru, best = caches.describe_policies(table)
    assert numbers([lru, best]) == ["1 MiB", "90.0 %", "50.0 %", "70.0 %"]
    assert "ARC" in best
    same = table[table["capacity_bytes"] == 2 * MIB]
    assert len(caches.describe_policies(same)) == 1


def test_the_plane_and_its_lines_have_what_is_fastest() -> None:
    table = pd.DataFrame(
        {
            "pcm_bytes": [0, 0, MIB, 0, MIB // 4],
            "flash_bytes": [0, MIB, 0, MIB, 0],
            "even_flash_bytes": [None, None, None, MIB, MIB],
            "read_latency_avg_ns": [919e3, 200e3, 100e3, 200e3, 150e3],
            "io_time_ns": [9e9, 4e9, 3e9, 4e9, 5e9],
        }
    )
    plane = table[table["even_flash_bytes"].isna()]
    line = table[table["even_flash_bytes"].notna()]
    assert numbers(caches.describe_plane(plane)) == ["919 µs", "200 µs", "1 MiB", "100 µs"]
    assert numbers(caches.describe_time_plane(plane)) == ["9 s", "3 s", "1 MiB", "0 B"]
    assert numbers(caches.describe_even(line)) == ["1 MiB", "256 KiB", "0 B", "150 µs"]
    assert numbers(caches.describe_even_time(line)) == ["1 MiB", "0 B", "1 MiB", "4 s"]


def test_the_changes_are_drawn_where_pcm_can_gain_most(tmp_path: Path) -> None:
    # GIVEN a page that is read 100 times, which eight pages of flash hold as well as two of PCM
    folder = make_trace(tmp_path / "t", [("read", 0, 1)] * 100)
    simulate_cache(folder, CacheOptions(sizes_bytes=(2 * 4096, 8 * 4096)))
    # WHEN the changes are put in words
    sensitivity = Inputs(folder).simulation("cache_sensitivity", command="cache")
    assert sensitivity is not None
    table = sensitivity.table[sensitivity.table["measure"] == "read_latency_avg"]
    drawn = caches.at_best_budget(table)
    # THEN it is the larger budget: two pages of flash buy half a page of PCM
    assert set(drawn["even_flash_bytes"]) == {8 * 4096}
    # (919 + 99 * 13.4) / 100 and (919 + 99 * 3.35) / 100 against (919 + 99 * 108) / 100
    _, least, most = caches.describe_changes(drawn, "mean read latency")
    assert numbers([least])[:2] == ["2", "80.7 %"]
    assert numbers([most])[:2] == ["0.5", "89.2 %"]


@pytest.mark.parametrize(
    ("longest_ns", "unit"), [(5e3, "µs"), (4e6, "ms"), (100e9, "s"), (200e9, "min"), (4e13, "h")]
)
def test_the_plane_of_times_has_a_unit_that_fits(longest_ns: float, unit: str) -> None:
    assert time_unit(pd.DataFrame({"io_time_ns": [1.0, longest_ns]}))[0] == unit


def test_there_is_no_section_before_a_simulation(tmp_path: Path) -> None:
    assert caches.cache(Inputs(make_trace(tmp_path / "t", MIXED))) is None


@pytest.mark.parametrize(
    ("options", "figures"),
    [
        (CacheOptions(), ["shared", "own", "policies", "plane", "plane-time", "even"]),
        (CacheOptions(sample_pages=50), ["shared", "plane", "plane-time", "even"]),
        (
            CacheOptions(levels="inclusive", policies=("lru",)),
            ["shared", "own", "policies", "plane"],
        ),
        (CacheOptions(level_writes="back", policies=("lru",)), ["policies", "plane", "plane-time"]),
    ],
)
def test_the_page_has_the_figures(
    tmp_path: Path, options: CacheOptions, figures: list[str]
) -> None:
    folder = make_trace(tmp_path / "t", MIXED)
    simulate_cache(folder, options)
    report(folder, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for name in figures:
        full = f"cache-{'curve-' if name in ('shared', 'own') else ''}{name}"
        assert f'id="{full}' in page
    assert ("cache-policies" in page) == ("policies" in figures)


@pytest.mark.parametrize("table", ["cache_curve", "cache_sensitivity"])
def test_tables_of_an_older_version_are_named_with_their_command(
    tmp_path: Path, table: str
) -> None:
    # GIVEN a folder whose simulation lacks a table, or a column of one
    folder = make_trace(tmp_path / "t", MIXED)
    simulate_cache(folder, CacheOptions(sizes_bytes=(1 << 16,)))
    file = folder.table(f"simulations/{table}")
    (file.unlink if table == "cache_sensitivity" else lambda: without_last_column(file))()
    # WHEN it is reported
    told = report(folder, tmp_path / "report.html")
    # THEN the page is there and says what to run again
    assert told.missing["tracekit simulate cache t"] == ["Caches"]
    page = (tmp_path / "report.html").read_text()
    assert "tracekit simulate cache t" in page
    assert 'id="cache-plane' not in page


def without_last_column(file: Path) -> None:
    """Write a table back as a version wrote it that did not know its last column."""
    table = pq.read_table(file)
    pq.write_table(table.select(table.column_names[:-1]), file)


def test_a_trace_of_writes_has_no_plane_of_reads(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", [("write", 5, 2), ("write", 6, 1)])
    simulate_cache(folder, CacheOptions())
    section = caches.cache(Inputs(folder))
    assert isinstance(section, Section)
    assert [drawn.name for drawn in section.parts["planes"]] == ["cache-plane-time"]
    assert [drawn.name for drawn in section.parts["even"]] == ["cache-even-time"]
    report(folder, tmp_path / "report.html")
    assert "Mean read latency in" not in (tmp_path / "report.html").read_text()
