"""The sentences of the report: computed from tables small enough to check by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.report.folder import make_folder, plain
from tracekit.report import formatting as fmt
from tracekit.report.inputs import Inputs
from tracekit.report.page import SECTIONS
from tracekit.report.section import Missing
from tracekit.report.sections import front, latency, locality, traffic
from tracekit.store import TraceFolder
from tracekit.tables import ROLES


def test_every_role_of_the_schema_has_a_name() -> None:
    assert tuple(fmt.ROLE_TITLES) == ROLES


def test_totals_names_the_busiest_and_the_hottest_role() -> None:
    table = pd.DataFrame(
        {
            "role": ["fs", "journal"],
            "total_sectors": [300, 100],
            "accesses_per_sector": [1.5, 5.0],
        }
    )
    assert plain(traffic.describe_totals(table)) == [
        "Most traffic goes to the file system: 75.0 % of all sectors read and written.",
        "A sector is touched 1.50 times in the file system and 5.00 times in the journal on"
        " average.",
        "The larger that number, the shorter the pale bar beside the full one and the more a small"
        " NVM can catch: here most in the journal.",
    ]


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
    assert plain(traffic.describe_mix(table)) == [
        "Of 100 requests, 85.0 % are writes and 10.0 % reads.",
        "25 of them (5 file system and 20 journal) wait for the medium: they flush the cache or"
        " force unit access. A device without a volatile cache serves them quickly.",
    ]
    assert traffic.operation_kinds(table)[["kind", "request_count"]].to_numpy().tolist() == [
        ["write, meta", 65],
        ["write, flush first, FUA, meta", 20],
        ["read", 10],
        ["flush", 5],
    ]


def test_sizes_says_all_only_of_all() -> None:
    table = pd.DataFrame(
        {
            "role": ["fs", "fs", "journal"],
            "operation": ["read", "read", "write"],
            "length_bytes": [4096, 65536, 4096],
            "request_count": [3, 1, 9],
        }
    )
    assert plain(traffic.describe_sizes(table)) == [
        "File system reads: 75.0 % are 4 KiB long, the longest 64 KiB.",
        "Journal writes: all are 4 KiB long.",
    ]


@pytest.mark.parametrize(
    ("mean_ns", "sentence"),
    [
        (2_000, "Swap: half of the gaps are at most 1 µs, the mean is 2 µs."),
        (
            12_000,
            "Swap: half of the gaps are at most 1 µs, the mean is 12 µs, 12 times as long: it"
            " arrives in bursts.",
        ),
    ],
)
def test_interarrival_calls_only_a_skewed_arrival_bursts(mean_ns: int, sentence: str) -> None:
    table = pd.DataFrame({"role": ["swap"], "gap_p50_ns": [1_000], "gap_avg_ns": [mean_ns]})
    assert plain(latency.describe_interarrival(table)) == [sentence]


def test_sequentiality() -> None:
    table = pd.DataFrame(
        {
            "role": ["journal"],
            "operation": ["write"],
            "sequential_ratio": [0.999],
            "run_avg_requests": [3638.0],
        }
    )
    assert plain(traffic.describe_sequentiality(table)) == [
        "Journal writes: 99.9 % sequential, in runs of 3,638 requests on average."
    ]


def test_throughput_adds_up_reads_and_writes_and_leaves_the_rest_out() -> None:
    table = pd.DataFrame(
        {
            "window_ns": [0, 0, 0, 500_000_000],
            "window_length_ns": [500_000_000] * 4,
            "role": ["fs"] * 4,
            "operation": ["read", "write", "discard", "write"],
            "request_count": [1, 1, 1, 1],
            "request_bytes": [1 << 20, 1 << 20, 1 << 40, 1 << 20],
        }
    )
    assert plain(traffic.describe_throughput(traffic.rate_by_role(table))) == [
        "File system: at most 4 MiB a second, 0 ns after the start; 3 MiB a second on average."
    ]


def test_throughput_has_its_idle_windows() -> None:
    # GIVEN requests in the first and the fourth second only
    table = pd.DataFrame(
        {
            "window_ns": [0, 3_000_000_000],
            "window_length_ns": [1_000_000_000] * 2,
            "role": ["swap"] * 2,
            "operation": ["read"] * 2,
            "request_count": [1, 1],
            "request_bytes": [4096, 8192],
        }
    )
    # WHEN the rates are computed, THEN the seconds between have none
    assert traffic.rate_by_role(table)["bytes_per_second"].tolist() == [4096, 0, 0, 8192]


def test_coverage_is_exact_between_its_rows() -> None:
    # GIVEN one block of 10 touches and ten of 1: half of the touches are the first block's
    table = pd.DataFrame(
        {
            "role": ["fs", "fs"],
            "hotter_bytes": [4096, 11 * 4096],
            "traffic_ratio": [0.5, 1.0],
        }
    )
    assert locality.bytes_for(table, 0.5) == 4096
    # AND nine tenths (18 of 20) need eight of the ten others
    assert locality.bytes_for(table, 0.9) == 9 * 4096
    # AND a part of a block is a whole one
    assert locality.bytes_for(table, 0.51) == 2 * 4096
    assert plain(locality.describe_coverage(table)) == [
        "File system: half of the touches fall on the hottest 4 KiB, nine tenths on the hottest"
        " 36 KiB, of 44 KiB touched."
    ]


def test_footprint_says_how_much_is_new() -> None:
    table = pd.DataFrame(
        {
            "window_ns": [0, 1_000_000_000],
            "role": ["fs", "fs"],
            "touched_blocks": [6, 4],
            "touched_bytes": [6 * 4096, 4 * 4096],
            "new_blocks": [6, 1],
            "seen_bytes": [6 * 4096, 7 * 4096],
        }
    )
    assert plain(locality.describe_windows(table)) == [
        "2 windows, 1 s each. At most 24 KiB file system in one."
    ]
    assert plain(locality.describe_new_blocks(table)) == [
        "File system: 28 KiB in all; 70.0 % of what a window touches was never touched before."
    ]


def test_latency_tells_flushing_writes_apart() -> None:
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
    assert plain(latency.describe_latency(table)) == [
        "Journal writes: half within 2 µs, 99 % within 3 µs.",
        "Journal writes that flush first: half within 90 µs, 99 % within 200 µs.",
    ]
    rows = latency.service_rows(table)
    assert [(row["name"], row["count"]) for row in rows] == [
        ("journal write that flushes first", "5")
    ]


def test_depth_finds_the_peak_and_passes_over_empty_windows() -> None:
    table = pd.DataFrame(
        {
            "window_ns": [0, 1_000, 2_000],
            "depth_avg": [1.0, 0.0, 2.0],
            "depth_max": [3, None, 17],
        }
    )
    assert plain(latency.describe_depth(table)) == [
        "On average 1 requests are under way.",
        "The deepest queue that a request met was 17, in the window 2 µs after the start.",
    ]


def test_heat_map_finds_the_busiest_part() -> None:
    cells = pd.DataFrame(
        {
            "part_number": [0, 3],
            "part_sector": [2048, 8192],
            "part_sectors": [2048, 2048],
            "bytes": [4096, 3 * 4096],
        }
    )
    assert plain(locality.describe_heat_map(cells)) == [
        "The busiest part, 1 MiB from 4 MiB on, takes 75.0 % of the bytes.",
        "2 of 4 parts are touched at all.",
        "The faintest cells hold 4 KiB or less, the strongest 12 KiB; the scale between is"
        " logarithmic.",
    ]


def test_commits_leaves_out_a_role_that_never_flushes_twice() -> None:
    table = pd.DataFrame(
        {
            "role": ["fs", "journal"],
            "flush_count": [1, 200],
            "interval_avg_ns": [None, 10_100_000],
            "write_bytes_per_flush": [None, 32768],
        }
    )
    assert plain(latency.describe_commits(table)) == [
        "Journal: 200 flushes, one every 10.1 ms on average, with 32 KiB written between."
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
    assert plain(traffic.describe_processes(bars))[0] == (
        "mysqld queued 8 requests, 80.0 % of those of the processes shown."
    )


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
