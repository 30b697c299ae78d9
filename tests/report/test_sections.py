"""The numbers in the sentences of the report, from tables small enough to work out by hand.

The words around them are those of golden.txt.
"""

import math
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from tests.report.folder import make_folder, numbers
from tracekit.report import formatting as fmt
from tracekit.report.inputs import Inputs
from tracekit.report.page import SECTIONS
from tracekit.report.section import Missing
from tracekit.report.sections import front, latency, locality, placement, replay, traffic
from tracekit.store import TraceFolder
from tracekit.units import MIB

S = 10**9


@pytest.mark.parametrize(
    ("describe", "columns", "expected"),
    [
        (
            traffic.describe_totals,
            {"role": ["fs", "journal"], "total_sectors": [300, 100],
             "accesses_per_sector": [1.5, 5.0]},
            ["75.0 %", "1.50", "5.00"],
        ),
        (  # all lengths of journal writes are the same: no share
            traffic.describe_sizes,
            {"role": ["fs", "fs", "journal"], "operation": ["read", "read", "write"],
             "length_bytes": [4096, 65536, 4096], "request_count": [3, 1, 9]},
            ["75.0 %", "4 KiB", "64 KiB", "4 KiB"],
        ),
        (
            traffic.describe_sequentiality,
            {"role": ["journal"], "operation": ["write"], "sequential_ratio": [0.999],
             "run_avg_requests": [3638.0]},
            ["99.9 %", "3,638"],
        ),
        (  # the discard moves no data
            lambda table: traffic.describe_throughput(traffic.rate_by_role(table)),
            {"window_ns": [0, 0, 0, S // 2], "window_length_ns": [S // 2] * 4, "role": ["fs"] * 4,
             "operation": ["read", "write", "discard", "write"], "request_count": [1] * 4,
             "request_bytes": [MIB, MIB, 1 << 40, MIB]},
            ["4 MiB", "0 ns", "3 MiB"],
        ),
        (  # a mean of less than ten times the median is no burst
            latency.describe_interarrival,
            {"role": ["swap"], "gap_p50_ns": [1_000], "gap_avg_ns": [2_000]},
            ["1 µs", "2 µs"],
        ),
        (
            latency.describe_interarrival,
            {"role": ["swap"], "gap_p50_ns": [1_000], "gap_avg_ns": [12_000]},
            ["1 µs", "12 µs", "12"],
        ),
        (
            locality.describe_windows,
            {"window_ns": [0, S], "role": ["fs"] * 2, "touched_bytes": [6 * 4096, 4 * 4096]},
            ["2", "1 s", "24 KiB"],
        ),
        (  # 7 of the 10 blocks of both windows were new
            locality.describe_new_blocks,
            {"role": ["fs"] * 2, "touched_blocks": [6, 4], "new_blocks": [6, 1],
             "seen_bytes": [6 * 4096, 7 * 4096]},
            ["28 KiB", "70.0 %"],
        ),
        (  # an empty window has no depth
            latency.describe_depth,
            {"window_ns": [0, 1_000, 2_000], "depth_avg": [1.0, 0.0, 2.0],
             "depth_max": [3, None, 17]},
            ["1", "17", "2 µs"],
        ),
        (
            locality.describe_heat_map,
            {"part_number": [0, 3], "part_sector": [2048, 8192], "part_sectors": [2048, 2048],
             "bytes": [4096, 3 * 4096]},
            ["1 MiB", "4 MiB", "75.0 %", "2", "4", "4 KiB", "12 KiB"],
        ),
        (  # a role that never flushes twice has no interval
            latency.describe_commits,
            {"role": ["fs", "journal"], "flush_count": [1, 200],
             "interval_avg_ns": [None, 10_100_000], "write_bytes_per_flush": [None, 32768]},
            ["200", "10.1 ms", "32 KiB"],
        ),
        (  # NVM as swap saves nothing
            placement.describe_capacity,
            {"placement": ["base", "fs", "fs", "swap", "swap"],
             "elapsed_ns": [40e9, 40e9, 30e9, 40e9, 40e9]},
            ["40 s", "30 s", "25.0 %"],
        ),
        (
            lambda table: replay.extent(table, 400),
            {"status": ["done", "done", "failed"], "operation": ["read", "write", "write"],
             "request_count": [10, 85, 5], "error_count": [0, 0, 5], "last_ns": [1e9, 2e9, 2e9]},
            ["95", "400", "2 s", "5", "5"],
        ),
        (  # lateness is weighed by requests: (3 * 1 us + 1 * 5 us) / 4
            replay.describe_replay,
            {"measure": ["late", "late", "response"], "role": ["fs", "journal", "fs"],
             "operation": ["write"] * 3, "request_count": [3, 1, 3],
             "time_avg_ns": [1_000.0, 5_000.0, 9_000.0], "time_p50_ns": [0, 0, 8_000],
             "time_p99_ns": [0, 0, 9_000], "time_max_ns": [4_000, 7_000, 9_000]},
            ["2 µs", "7 µs", "8 µs", "99 %", "9 µs"],
        ),
    ],
)  # fmt: skip
def test_numbers_of_the_sentences(
    describe: Callable[[pd.DataFrame], list[str]], columns: dict[str, Any], expected: list[str]
) -> None:
    assert numbers(describe(pd.DataFrame(columns))) == expected


def test_mix_counts_what_waits_for_the_medium() -> None:
    table = pd.DataFrame(
        {
            "role": ["fs", "fs", "journal", "journal"],
            "operation": ["flush", "read", "write", "write"],
            "is_preflush": [True, False, True, False],
            "is_fua": [False, False, True, False],
            "is_meta": [False, False, True, True],
            "request_count": [5, 10, 20, 65],
        }
    )
    assert numbers(traffic.describe_mix(table)) == ["100", "85.0 %", "10.0 %", "25", "5", "20"]
    assert traffic.operation_kinds(table)[["kind", "request_count"]].to_numpy().tolist() == [
        ["write, meta", 65],
        ["write, flush first, FUA, meta", 20],
        ["read", 10],
        ["flush", 5],
    ]


def test_throughput_has_its_idle_windows() -> None:
    # GIVEN requests in the first and the fourth second only
    table = pd.DataFrame(
        {
            "window_ns": [0, 3 * S],
            "window_length_ns": [S] * 2,
            "role": ["swap"] * 2,
            "operation": ["read"] * 2,
            "request_count": [1, 1],
            "request_bytes": [4096, 8192],
        }
    )
    # WHEN the rates are computed, THEN the seconds between have none
    assert traffic.rate_by_role(table)["bytes_per_second"].tolist() == [4096, 0, 0, 8192]


def test_windows_without_a_value_are_gaps() -> None:
    table = pd.DataFrame({"window_ns": [0, 2], "role": ["fs"] * 2, "p99": [5.0, 7.0]})
    found = fmt.every_window(table, 1.0, values=["p99"], missing=math.nan)["p99"]
    assert found.isna().tolist() == [False, True, False]


def test_coverage_is_exact_between_its_rows() -> None:
    # GIVEN one block of 10 touches and ten of 1: half of the touches are the first block's
    table = pd.DataFrame(
        {"role": ["fs"] * 2, "hotter_bytes": [4096, 11 * 4096], "traffic_ratio": [0.5, 1.0]}
    )
    assert locality.bytes_for(table, 0.5) == 4096
    # AND nine tenths (18 of 20) need eight of the ten others
    assert locality.bytes_for(table, 0.9) == 9 * 4096
    # AND a part of a block is a whole one
    assert locality.bytes_for(table, 0.51) == 2 * 4096
    assert numbers(locality.describe_coverage(table)) == ["4 KiB", "36 KiB", "44 KiB"]


def test_latency_keeps_flushing_writes_apart() -> None:
    table = pd.DataFrame(
        {
            "step": ["wait", "wait", "d2c"],
            "role": ["journal"] * 3,
            "operation": ["write"] * 3,
            "is_preflush": [False, True, True],
            "request_count": [10, 5, 5],
            "latency_min_ns": [1e3] * 3,
            "latency_avg_ns": [2e3] * 3,
            "latency_p50_ns": [2_000, 90_000, 70_000],
            "latency_p99_ns": [3_000, 200_000, 80_000],
            "latency_max_ns": [4e3] * 3,
        }
    )
    sentences = latency.describe_latency(table)
    assert numbers(sentences) == ["2 µs", "99 %", "3 µs", "90 µs", "99 %", "200 µs"]
    assert ["flush" in sentence for sentence in sentences] == [False, True]
    rows = latency.service_rows(table)
    assert [(row["name"], row["count"]) for row in rows] == [
        ("journal write that flushes first", "5")
    ]


def test_processes_without_a_name_are_one_bar() -> None:
    table = pd.DataFrame(
        {
            "process": ["mysqld", None, "mysqld"],
            "process_rank": [1, 2, 1],
            "role": ["fs", "fs", "journal"],
            "request_count": [5, 2, 3],
        }
    )
    bars = traffic.by_process(table)
    assert bars.to_dict("index") == {
        "mysqld": {"fs": 5, "journal": 3},
        "(name not known)": {"fs": 2, "journal": 0},
    }
    assert numbers(traffic.describe_processes(bars)[:1]) == ["8", "80.0 %"]


def test_layout_without_partitions_is_missing(parsed: TraceFolder) -> None:
    parsed.save_info(layout=[])
    assert front.layout(Inputs(parsed)) == Missing("Layout and roles", "classify")


def test_an_empty_trace_has_every_section(tmp_path_factory: pytest.TempPathFactory) -> None:
    # GIVEN a trace without a single request
    folder = make_folder(
        tmp_path_factory.mktemp("empty") / "trace",
        requests=0,
        stages=("classify", "analyze", "replay"),
    )
    # WHEN its sections are built, THEN none fails, and only the recommendation is missing
    built = [build(Inputs(folder)) for build in SECTIONS]
    missing = {part.stage for part in built if isinstance(part, Missing)}
    assert missing == {"recommend"}
