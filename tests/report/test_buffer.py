"""The section on row buffers: its numbers by hand, and the page of a simulated trace."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from msgspec import to_builtins

from tests.report.folder import make_folder, numbers
from tests.simulate.cache_traces import make_trace
from tracekit.model.buffer import BufferOptions, simulate_buffer
from tracekit.report import charts
from tracekit.report.inputs import Inputs
from tracekit.report.page import SECTIONS, report
from tracekit.report.section import Section
from tracekit.report.sections import buffer
from tracekit.report.sections.buffer import draw_hits, draw_rates
from tracekit.store import TraceFolder


def counted(hit_rates: list[float], mapping: str) -> pd.DataFrame:
    """Return rows of 128 and 256 bytes with 1 and 4 buffers each."""
    return pd.DataFrame(
        {
            "mapping": mapping,
            "row_bytes": [128, 128, 256, 256],
            "buffers": [1, 4, 1, 4],
            "access_bytes": 64,
            "hit_rate": hit_rates,
        }
    )


def test_hits_of_streams_and_of_banks() -> None:
    lru = counted([0.5, 0.6, 0.75, 0.9], "lru")
    banked = counted([0.5, 0.58, 0.75, 0.9], "banked")
    # Rows of 256 B that are read in 64 B once miss once in four times; banks lose 0.6 - 0.58.
    first, second, _study = buffer.describe_hits(pd.concat([lru, banked]))
    assert numbers([first, second]) == ["4", "256 B", "90.0 %", "75.0 %", "2"]
    same = pd.concat([lru, lru.assign(mapping="banked")])
    assert numbers(buffer.describe_hits(same)[1:2]) == []


def test_what_half_a_buffer_costs() -> None:
    table = pd.DataFrame(
        {
            "row_bytes": [32, 64, 256, 512, 1024],
            "access_bytes": [32, 64, 64, 64, 64],
            "throughput_bytes_per_second": [1.0, 2.0, 6.0, 8.0, 10.0],
        }
    )
    study = "2 %"
    found = numbers(buffer.describe_sizes(table))
    assert found == ["20.0 %", "1 KiB", "25.0 %", "512 B", study]
    assert numbers(buffer.describe_sizes(table.head(2))) == [study]


def test_the_growth_and_what_is_left_to_dram() -> None:
    table = pd.DataFrame(
        {
            "hit_rate": [0.5, 0.7, 0.9],
            "access_avg_ns": [121.0, 110.0, 100.0],
            "dram_avg_ns": [70.0, 65.0, 60.0],
        }
    )
    growth, left = buffer.describe_rates(table)
    assert numbers([growth])[:3] == ["50 %", "90 %", "10.0 %"]
    assert numbers([left])[:2] == ["90 %", "60.0 %"]


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
    speeds = pd.DataFrame(
        {"memory": ["most", "dram"], "hit_rate": [0.5, 0.5], "bytes_per_second": [1e9, 2e9]}
    )
    lines = points(draw_rates(speeds, size))
    assert [[0.5, 2e9]] in lines
    assert [[0.5, 1e9]] in lines


def test_nobody_has_asked(parsed: TraceFolder) -> None:
    assert buffer.buffer in SECTIONS
    assert buffer.buffer(Inputs(parsed)) is None


@pytest.mark.parametrize(
    "options",
    [
        BufferOptions(),
        BufferOptions(sizes_bytes=(4096,), buffers=(3,)),
        BufferOptions(sizes_bytes=tuple(32 << at for at in range(12)), buffers=(1, 1024)),
    ],
)
def test_a_simulated_trace_has_the_section(tmp_path: Path, options: BufferOptions) -> None:
    folder = make_folder(tmp_path / "trace", stages=("classify", "analyze"))
    answer = to_builtins(simulate_buffer(folder, options))
    report(folder, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert answer["headline"][0] in page
    for name in ("hits", "sizes", "rates"):
        assert f'id="figure-buffer-{name}"' in page
    assert "of this trace's reads" in page
    section = buffer.buffer(Inputs(folder))
    assert isinstance(section, Section)
    several = len(options.buffers) > 1
    keys = [key.text for key in section.parts["sizes"].legend]
    assert ("NVRAM, 1\N{NO-BREAK SPACE}buffer" in keys) == several
    assert len(keys) == 3 + several


def test_a_trace_of_writes_without_findings(tmp_path: Path) -> None:
    # GIVEN a trace that nothing was analyzed of, WHEN it is reported
    folder = make_trace(tmp_path / "t", [("write", 5, 2), ("write", 6, 1)])
    simulate_buffer(folder, BufferOptions())
    report(folder, tmp_path / "report.html")
    # THEN nothing is said of reads, nor of other memories
    page = (tmp_path / "report.html").read_text()
    assert 'id="figure-buffer-rates"' in page
    assert "of this trace's reads" not in page
    assert "If the memory were another" not in page


def test_memories_of_a_what_if_are_a_table(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", [("read", 5, 2)])
    file = tmp_path / "what-if.toml"
    file.write_text("[nvram.fast-pcm]\nread_ns = 20\n")
    simulate_buffer(folder, BufferOptions((128, 256), (1, 2), what_if=file))
    section = buffer.buffer(Inputs(folder))
    assert isinstance(section, Section)
    # Rows of 256 B miss one of four accesses, of 128 B one of two: 12.5 ns and 55 or 20 ns each.
    table = section.parts["what_if"].table
    assert table[["nvram", "row_bytes", "access_avg_ns"]].to_numpy().tolist() == [
        ["as asked", 256, 26.25],
        ["fast-pcm", 256, 17.5],
        ["as asked", 128, 40.0],
        ["fast-pcm", 128, 22.5],
    ]
    report(folder, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "If the memory were another" in page
    assert "fast-pcm" in page


def test_an_older_version_is_named_with_its_command(tmp_path: Path) -> None:
    # GIVEN an answer of a version without times at given hit rates
    folder = make_trace(tmp_path / "t", [("read", 5, 2)])
    answer = to_builtins(simulate_buffer(folder, BufferOptions()))
    del answer["hit_rates"]
    (folder.path / "simulations" / "buffer.json").write_text(json.dumps(answer))
    # WHEN it is reported, THEN the page says what to run again
    told = report(folder, tmp_path / "report.html")
    assert told.missing["tracekit simulate buffer t"] == ["Row buffers of an NVRAM"]
