"""Sections of the simulations: tiers, caches and row buffers."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure
from msgspec import to_builtins

from tests.command_line import succeed
from tests.report.folder import frame, numbers, page_of, section_of
from tests.simulate.memory_models import memory_folder, some_accesses
from tests.simulate.traces import Request, make_trace
from tests.traces import written
from tracekit.model.buffer import BufferOptions, simulate_buffer
from tracekit.model.cache import CacheOptions, simulate_cache
from tracekit.model.tier_study import TierOptions
from tracekit.model.tiers import simulate_tiers
from tracekit.report import charts
from tracekit.report.charts import gain_bars
from tracekit.report.inputs import Inputs
from tracekit.report.page import SECTIONS, report
from tracekit.report.section import Section
from tracekit.report.sections import buffer, caches, tiers
from tracekit.report.sections.buffer import draw_hits, draw_rates
from tracekit.report.sections.caches import time_unit
from tracekit.report.sections.front import reproduce
from tracekit.report.sections.tiers import draw_key
from tracekit.store import TraceFolder
from tracekit.units import MIB


def configuration(mix: str, iops_per_price: float) -> dict[str, Any]:
    return {"mix": mix, "iops_per_price": iops_per_price}


ANSWER: dict[str, Any] = {
    "price_unit": "relative",
    "tiers": [{"name": "pcm"}, {"name": "flash"}, {"name": "disk"}],
    "configurations": {
        "static": {
            "best": configuration("13% pcm, 87% flash", 2117.1),
            "best with pcm": configuration("13% pcm, 87% flash", 2117.1),
            "best without pcm": configuration("95% flash, 5% disk", 1868.7),
        }
    },
}


def test_the_gain_is_that_of_the_best_mixes() -> None:
    assert numbers(tiers.describe_surface(ANSWER, "static")) == [
        *("2,117", "13%", "87%"),
        *("1,869", "95%", "5%"),
    ]
    assert numbers([tiers.describe_gain(ANSWER, "static")]) == ["13%", "87%", "13.3%"]


def test_prices_in_a_currency_are_on_the_axis() -> None:
    table = frame(configuration=["best"], method=["static"], iops_per_price=[2117.1])
    euro = ANSWER | {"price_unit": "EUR per GB"}
    for one, title in ((euro, "IOPS per EUR/GB"), (ANSWER, "IOPS for the price")):
        shown = tiers.bars(table).assign(unit=tiers.price_unit(one))
        for size in (charts.WIDE, charts.NARROW):
            assert draw_key(shown, size).axes[0].get_xlabel() == title


def test_the_page_of_a_what_if_has_its_currency_in_every_figure_of_prices(
    parsed: TraceFolder, tmp_path: Path
) -> None:
    what_if = tmp_path / "euro.toml"
    what_if.write_text(
        'currency = "EUR"\n[price_per_gb]\nssd-pcm = 2\nssd-emlc = 0.5\nhdd-15k = 0.1\n'
    )
    simulate_tiers(parsed, TierOptions(extent_bytes=65536, step_percent=50, what_if=what_if))
    text = page_of(parsed, tiers.tiers)
    assert "IOPS per EUR/GB of every mix, static" in text
    assert "IOPS for the price of every mix" not in text
    assert text.count("IOPS per EUR/GB") > 4


def test_the_surface_keeps_the_best_of_the_other_tiers() -> None:
    # GIVEN four tiers, so that a pair of shares stands for several mixes
    table = frame(
        share_ratio=[[0.5, 0.5, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0], [0.5, 0.0, 0.0, 0.5]],
        iops_per_price=[3.0, 1.0, 2.0],
    )
    # THEN the best of each pair remains
    found = tiers.surface(table, ANSWER, method="static")
    assert found[["first_ratio", "second_ratio", "iops_per_price"]].to_numpy().tolist() == [
        [0.5, 0.0, 2.0],
        [0.5, 0.5, 3.0],
    ]


def test_skew_says_what_a_fifth_takes() -> None:
    table = frame(
        role=["all"] * 5,
        operation=["read"] * 5,
        capacity_ratio=[0.2, 0.4, 0.6, 0.8, 1.0],
        traffic_ratio=[0.83, 0.9, 0.95, 1.0, 1.0],
    )
    assert numbers(tiers.describe_skew(table)) == ["20.0%", "83.0%"]


def test_sensitivity_has_both_ends() -> None:
    table = frame(
        tier=["pcm", "pcm"],
        parameter=["price_per_gb", "price_per_gb"],
        factor=[0.5, 2.0],
        method=["static", "static"],
        gain_ratio=[0.5, -0.25],
    )
    assert numbers(tiers.describe_sensitivity(table, ANSWER)) == [
        *("−25.0%", "2"),  # noqa: RUF001
        *("50.0%", "0.5"),
    ]


@pytest.mark.parametrize("build", [tiers.tiers, caches.cache, caches.rivals, buffer.buffer])
def test_a_simulation_that_was_not_run_is_not_missing(parsed: TraceFolder, build: Any) -> None:
    assert build in SECTIONS
    assert build(Inputs(parsed)) is None


@pytest.mark.parametrize("names", [(), ("ssd-pcm", "hdd-15k")])
def test_tiers_have_a_section(parsed: TraceFolder, names: tuple[str, ...]) -> None:
    # GIVEN a trace with dynamic tiering of three tiers, or of two that have no surface
    options = TierOptions(
        extent_bytes=65536, step_percent=10, tiers=names, is_dynamic=True, window_s=1.0
    )
    answer = to_builtins(simulate_tiers(parsed, options))
    text = page_of(parsed, tiers.tiers)
    # THEN the answer and the figures are there
    assert answer["headline"][0] in text
    for figure in ("tiers-key", "tiers-skew", "tiers-sensitivity"):
        assert f'id="figure-{figure}"' in text
    for method in ("static", "dynamic"):
        assert (f'id="figure-tiers-surface-{method}"' in text) == (not names)


def test_how_to_reproduce_names_the_simulation_with_its_options(parsed: TraceFolder) -> None:
    # GIVEN a simulation that was asked with options, and one of an older release
    words = ["--extent", "64KiB", "--step", "50", "--vary", "extent_bytes=2"]
    command = ["simulate", "tiers", str(parsed.path), *words]
    succeed(*command, "--json")
    (parsed.path / "simulations" / "buffer.json").write_text('{"headline": []}')
    section = reproduce(Inputs(parsed))
    # THEN both commands are there, with what is known of them
    assert isinstance(section, Section)
    commands = section.parts["commands"]
    assert "tracekit simulate buffer trace" in commands
    assert f"tracekit simulate tiers trace {' '.join(words)}" in commands


@pytest.mark.parametrize("size", [charts.WIDE, charts.NARROW])
@pytest.mark.parametrize("gains", [[-0.874, -0.014], [0.336, 0.5], [-0.4, 0.3], [0.0]])
def test_numbers_beside_bars_stay_within_the_axes(size: charts.Size, gains: list[float]) -> None:
    # GIVEN losses, gains, both or neither
    kinds = ["size of an extent × 0.5, dynamic" for _ in gains]  # noqa: RUF001
    table = pd.DataFrame({"gain_ratio": gains, "kind": kinds, "role": "base"})
    drawn = gain_bars(table, size, x_title="gain by the first tier")
    drawn.draw_without_rendering()
    # THEN no number lies on the names of the bars or beyond the other end
    axes = drawn.axes[0]
    box = axes.get_window_extent()
    numbers = [text.get_window_extent() for text in axes.texts]
    assert len(numbers) == len(gains)
    names = [label.get_text() for label in axes.get_yticklabels()]
    two_lines = "size of an extent\n×\u00a00.5, dynamic"  # noqa: RUF001
    assert names == ([two_lines] if size.is_narrow else kinds[:1]) * len(gains)
    assert all(box.x0 <= number.x0 and number.x1 <= box.x1 for number in numbers)


MIXED: list[Request] = [
    ("write" if number % 4 == 3 else "read", number * 37 % 90 + 950, 1 + number % 5)
    for number in range(300)
]


def test_a_curve_has_the_size_of_half_of_its_hits() -> None:
    table = frame(
        role=["journal"] * 4,
        capacity_bytes=[0, MIB, 2 * MIB, 4 * MIB],
        miss_ratio=[1.0, 1.0, 0.25, 0.25],
    )
    assert numbers(caches.describe_curve(table)) == ["2 MiB", "25.0%"]


def test_policies_are_compared_where_lru_is_furthest_from_the_optimum() -> None:
    table = frame(
        policy=["lru", "optimum", "arc"] * 2,
        capacity_bytes=[MIB] * 3 + [2 * MIB] * 3,
        miss_ratio=[0.9, 0.5, 0.7, 0.4, 0.4, 0.4],
    )
    lru, best = caches.describe_policies(table)
    assert numbers([lru, best]) == ["1 MiB", "90.0%", "50.0%", "70.0%"]
    assert "ARC" in best
    same = table[table["capacity_bytes"] == 2 * MIB]
    assert len(caches.describe_policies(same)) == 1


def test_the_plane_and_its_lines_have_what_is_fastest() -> None:
    table = frame(
        pcm_bytes=[0, 0, MIB, 0, MIB // 4],
        flash_bytes=[0, MIB, 0, MIB, 0],
        even_flash_bytes=[None, None, None, MIB, MIB],
        read_latency_avg_ns=[919e3, 200e3, 100e3, 200e3, 150e3],
        io_time_ns=[9e9, 4e9, 3e9, 4e9, 5e9],
    )
    plane = table[table["even_flash_bytes"].isna()]
    line = table[table["even_flash_bytes"].notna()]
    assert numbers(caches.describe_plane(plane)) == ["919 µs", "200 µs", "1 MiB", "100 µs"]
    assert numbers(caches.describe_time_plane(plane)) == ["9 s", "3 s", "1 MiB", "0 B"]
    assert numbers(caches.describe_even(line)) == ["1 MiB", "256 KiB", "0 B", "150 µs"]
    assert numbers(caches.describe_even_time(line)) == ["1 MiB", "0 B", "1 MiB", "4 s"]


def test_a_bar_of_a_cache_has_the_colour_of_its_verdict() -> None:
    # GIVEN caches that take less than the placement of 5, without their own work, and not
    table = frame(
        rival=["bcache", "zram", "ZFS log", "dm-cache"],
        mode=["back", "alone", "back", "through"],
        elapsed_ns=[3, 4, 1, 5],
        delayed_ns=[1, 0, 4, 0],
    )
    bars = caches.rival_bars(table, {"placement_elapsed_ns": 5, "base_elapsed_ns": 9})
    assert bars.to_numpy().tolist() == [
        ["base device alone", "slate", 9],
        ["the quickest placement", "purple", 5],
        ["bcache, back", "green", 4],
        ["zram", "green", 4],
        ["ZFS log, back", "orange", 5],
        ["dm-cache, through", "silver", 5],
    ]


def test_the_changes_are_drawn_where_pcm_can_gain_most(tmp_path: Path) -> None:
    # GIVEN a page that is read 100 times, which eight pages of flash hold as well as two of PCM
    folder = make_trace(tmp_path / "t", [("read", 0, 1)] * 100)
    simulate_cache(folder, CacheOptions(sizes_bytes=(2 * 4096, 8 * 4096)))
    sensitivity = Inputs(folder).simulation("cache_sensitivity", command="cache")
    assert sensitivity is not None
    table = sensitivity.table[sensitivity.table["measure"] == "read_latency_avg"]
    drawn = caches.at_best_budget(table)
    # THEN it is the larger budget: two pages of flash buy half a page of PCM
    assert set(drawn["even_flash_bytes"]) == {8 * 4096}
    # (919 + 99 * 13.4) / 100 and (919 + 99 * 3.35) / 100 against (919 + 99 * 108) / 100
    _, least, most = caches.describe_changes(drawn, "mean read latency")
    assert numbers([least])[:2] == ["2", "80.7%"]
    assert numbers([most])[:2] == ["0.5", "89.2%"]


@pytest.mark.parametrize(
    ("longest_ns", "unit"), [(5e3, "µs"), (4e6, "ms"), (100e9, "s"), (200e9, "min"), (4e13, "h")]
)
def test_the_plane_of_times_has_a_unit_that_fits(longest_ns: float, unit: str) -> None:
    assert time_unit(pd.DataFrame({"io_time_ns": [1.0, longest_ns]}))[0] == unit


@pytest.mark.parametrize(
    ("options", "figures"),
    [
        (CacheOptions(), ["shared", "own", "policies", "plane", "plane-time", "even"]),
        (CacheOptions(sample_pages=50), ["shared", "policies", "plane", "plane-time", "even"]),
        (CacheOptions(sample_pages=9), ["shared", "plane", "plane-time", "even"]),
        (
            CacheOptions(levels="inclusive", policies=("lru",)),
            ["shared", "own", "policies", "plane"],
        ),
        (CacheOptions(level_writes="back", policies=("lru",)), ["policies", "plane", "plane-time"]),
    ],
)
def test_the_page_has_figures(tmp_path: Path, options: CacheOptions, figures: list[str]) -> None:
    folder = make_trace(tmp_path / "t", MIXED)
    simulate_cache(folder, options)
    page = page_of(folder, caches.cache)
    for name in figures:
        full = f"cache-{'curve-' if name in ('shared', 'own') else ''}{name}"
        assert f'id="{full}' in page
    assert ("cache-policies" in page) == ("policies" in figures)


@pytest.mark.parametrize("table", ["cache_curve", "cache_sensitivity"])
def test_tables_of_older_versions_are_named_with_their_command(tmp_path: Path, table: str) -> None:
    # GIVEN a folder whose simulation lacks a table, or a column of one
    folder = make_trace(tmp_path / "t", MIXED)
    simulate_cache(folder, CacheOptions(sizes_bytes=(1 << 16,)))
    file = folder.table(f"simulations/{table}")
    if table == "cache_sensitivity":
        file.unlink()
    else:
        known = pq.read_table(file)
        pq.write_table(known.select(known.column_names[:-1]), file)
    told = report(folder, tmp_path / "report.html")
    # THEN the page is there and says what to run again
    assert told.missing["tracekit simulate cache t"] == ["Caches"]
    page = (tmp_path / "report.html").read_text()
    assert "tracekit simulate cache t" in page
    assert 'id="cache-plane' not in page


def test_a_trace_of_writes_has_no_plane_of_reads(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", [("write", 5, 2), ("write", 6, 1)])
    simulate_cache(folder, CacheOptions())
    section = section_of(caches.cache, folder)
    assert [drawn.name for drawn in section.parts["planes"]] == ["cache-plane-time"]
    assert [drawn.name for drawn in section.parts["even"]] == ["cache-even-time"]
    assert "Mean read latency in" not in repr(section.parts)


def counted(hit_rates: list[float], mapping: str) -> pd.DataFrame:
    """Return rows of 128 and 256 bytes with 1 and 4 buffers each."""
    return frame(
        mapping=mapping,
        row_bytes=[128, 128, 256, 256],
        buffers=[1, 4, 1, 4],
        accesses=2,
        bytes=128,
        hit_rate=hit_rates,
    )


def test_hits_of_streams_and_of_banks() -> None:
    lru = counted([0.5, 0.6, 0.75, 0.9], "lru")
    banked = counted([0.5, 0.58, 0.75, 0.9], "banked")
    # Rows of 256 B that are read in 64 B once miss once in four times; banks lose 0.6 - 0.58.
    first, second, _study = buffer.describe_hits(pd.concat([lru, banked]))
    assert numbers([first, second]) == ["4", "256 B", "90.0%", "75.0%", "2"]
    same = pd.concat([lru, lru.assign(mapping="banked")])
    assert numbers(buffer.describe_hits(same)[1:2]) == []


def test_what_half_a_buffer_costs() -> None:
    table = frame(
        row_bytes=[64, 256, 512, 1024],
        throughput_bytes_per_second=[2.0, 6.0, 8.0, 10.0],
        program_ratio=[0.8, 0.9, 0.95, 1.0],
    )
    found = numbers(buffer.describe_sizes(table))
    memory, program = ["20.0%", "1 KiB", "25.0%", "512 B"], ["5.0%", "1 KiB", "5.3%", "512 B"]
    assert found == [*memory, *program, "2%"]
    unknown = table.assign(program_ratio=None)
    assert numbers(buffer.describe_sizes(unknown)) == [*memory, "2%"]
    assert numbers(buffer.describe_sizes(table.head(2))) == ["2%"]


def test_the_growth_and_what_is_left_to_dram() -> None:
    table = frame(
        hit_rate=[0.5, 0.7, 0.9],
        access_avg_ns=[121.0, 110.0, 100.0],
        dram_avg_ns=[70.0, 65.0, 60.0],
        program_ratio=[0.7, 0.8, 0.9],
        unbuffered_program_ratio=[0.6, 0.6, 0.6],
    )
    growth, left, program = buffer.describe_rates(table)
    assert numbers([growth])[:3] == ["50%", "90%", "10.0%"]
    assert numbers([left])[:2] == ["90%", "60.0%"]
    assert numbers([program]) == ["70.0%", "50%", "90.0%", "90%", "60.0%"]
    assert len(buffer.describe_rates(table.assign(program_ratio=None))) == 2


def test_of_many_sizes_some_are_drawn() -> None:
    assert buffer.spread([1, 2, 3], 6) == [1, 2, 3]
    assert buffer.spread(range(12), 6) == [0, 2, 4, 7, 9, 11]


def points(drawn: Figure) -> list[Any]:
    """Return the points of each curve of a figure."""
    return [np.asarray(line.get_xydata()).tolist() for line in drawn.axes[0].lines]


@pytest.mark.parametrize("size", [charts.WIDE, charts.NARROW])
def test_the_curves_are_those_of_the_table(size: charts.Size) -> None:
    table = counted([0.5, 0.6, 0.75, 0.9], "lru")
    drawn = draw_hits(table, size)
    curves = points(drawn)
    assert curves == [[[1, 0.5], [4, 0.6]], [[1, 0.75], [4, 0.9]]]
    speeds = frame(memory=["most", "dram"], hit_rate=[0.5, 0.5], bytes_per_second=[1e9, 2e9])
    lines = points(draw_rates(speeds, size))
    assert [[0.5, 2e9]] in lines
    assert [[0.5, 1e9]] in lines


@pytest.mark.parametrize(
    "options",
    [
        BufferOptions(),
        BufferOptions(sizes_bytes=(4096,), buffers=(3,)),
        BufferOptions(sizes_bytes=tuple(32 << at for at in range(12)), buffers=(1, 1024)),
        BufferOptions(caches="none"),
    ],
)
def test_row_buffers_have_a_section(tmp_path: Path, options: BufferOptions) -> None:
    # GIVEN a folder of memory accesses, which has no requests
    folder = memory_folder(tmp_path / "trace", some_accesses(500))
    answer = to_builtins(simulate_buffer(folder, options))
    # THEN it is in the page, with its figures
    page = report(folder, tmp_path / "page.html").path.read_text()
    assert answer["headline"][0] in page
    for name in ("hits", "sizes", "rates"):
        assert f'id="figure-buffer-{name}"' in page


def test_row_buffers_of_a_block_trace_are_no_finding(parsed: TraceFolder) -> None:
    # GIVEN what an older version simulated of a block trace
    (parsed.path / "simulations").mkdir(exist_ok=True)
    (parsed.path / "simulations" / "buffer.json").write_text('{"headline": ["98%"]}')
    page = page_of(parsed, buffer.buffer)
    assert "This is a block trace" in page
    assert "98%" not in page


def test_a_trace_of_writes_without_findings(tmp_path: Path) -> None:
    # GIVEN a trace that nothing was analyzed of, WHEN it is reported
    folder = memory_folder(tmp_path / "t", [("store", 5, 2), ("store", 6, 1)])
    simulate_buffer(folder, BufferOptions())
    report(folder, tmp_path / "report.html")
    # THEN nothing is said of reads, nor of other memories
    page = (tmp_path / "report.html").read_text()
    assert 'id="figure-buffer-rates"' in page
    assert "of this trace's reads" not in page
    assert "If the memory were another" not in page


def test_memories_of_a_what_if_are_a_table(tmp_path: Path) -> None:
    folder = memory_folder(tmp_path / "t", [("load", line * 64, 64) for line in range(128)])
    file = written(tmp_path / "what-if.toml", "[nvram.fast-pcm]\nread_ns = 20\n")
    simulate_buffer(folder, BufferOptions((128, 256), (1, 2), what_if=file, caches="none"))
    section = section_of(buffer.buffer, folder)
    # Rows of 256 B miss one of four accesses, of 128 B one of two: 12.5 ns and 55 or 20 ns each.
    table = section.parts["what_if"].table
    assert table[["nvram", "row_bytes", "access_avg_ns"]].to_numpy().tolist() == [
        ["as asked", 256, 26.25],
        ["fast-pcm", 256, 17.5],
        ["as asked", 128, 40.0],
        ["fast-pcm", 128, 22.5],
    ]
    page = page_of(folder, buffer.buffer)
    assert "If the memory were another" in page
    assert "fast-pcm" in page
