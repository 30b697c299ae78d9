"""Sections of the page against small tables."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.report.folder import frame, make_folder, numbers, page_of, plain, section_of
from tests.traces import disk, filled, json_of, write_folder
from tracekit.analyze import analyze
from tracekit.classify import ClassifyOptions as Roles
from tracekit.classify import classify
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.readers.blktrace import parse
from tracekit.report import formatting as fmt
from tracekit.report.inputs import Inputs
from tracekit.report.page import SECTIONS
from tracekit.report.section import Missing, Section
from tracekit.report.sections import (
    applications,
    front,
    latency,
    locality,
    placement,
    replay,
    traffic,
)
from tracekit.store import TraceFolder, write_json, write_table
from tracekit.tables import OBSERVED
from tracekit.units import MIB

S = 10**9


@pytest.mark.parametrize(
    ("describe", "columns", "expected"),
    [
        (
            traffic.describe_totals,
            {"role": ["fs", "journal"], "total_sectors": [300, 100],
             "accesses_per_sector": [1.5, 5.0]},
            ["75.0%", "1.50", "5.00"],
        ),
        (  # all lengths of journal writes are the same: no share
            traffic.describe_sizes,
            {"role": ["fs", "fs", "journal"], "operation": ["read", "read", "write"],
             "length_bytes": [4096, 65536, 4096], "request_count": [3, 1, 9]},
            ["75.0%", "4 KiB", "64 KiB", "4 KiB"],
        ),
        (
            traffic.describe_sequentiality,
            {"role": ["journal"], "operation": ["write"], "sequential_ratio": [0.999],
             "run_avg_requests": [3638.0]},
            ["99.9%", "3,638"],
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
            ["28 KiB", "70.0%"],
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
            ["1 MiB", "4 MiB", "75.0%", "2", "4"],
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
            ["40 s", "30 s", "25.0%"],
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
            ["2 µs", "7 µs", "8 µs", "99%", "9 µs"],
        ),
    ],
)  # fmt: skip
def test_numbers_of_the_sentences(
    describe: Callable[[pd.DataFrame], list[str]], columns: dict[str, Any], expected: list[str]
) -> None:
    assert numbers(describe(pd.DataFrame(columns))) == expected


def test_unknown_response_times_have_no_heat_map(tmp_path: Path) -> None:
    # GIVEN a trace of when requests were queued only
    rows = [{"request_id": one, "queue_ns": one, "sector": 8 * one} for one in range(9)]
    folder = write_folder(tmp_path / "trace", rows, devices=[disk("sda", 1 << 20)])
    classify(folder, Roles())
    analyze(folder)
    figure = section_of(latency.latency, folder).parts["heat_map"]
    # THEN one sentence says so, in place of a figure
    assert (figure.drawing.svg, figure.drawing.content) == ("", "")
    assert [text[:19] for text in figure.sentences] == ["No request has both"]


def test_mix_counts_what_waits_for_the_medium() -> None:
    table = frame(
        role=["fs", "fs", "journal", "journal"],
        operation=["flush", "read", "write", "write"],
        is_preflush=[True, False, True, False],
        is_fua=[False, False, True, False],
        is_meta=[False, False, True, True],
        request_count=[5, 10, 20, 65],
    )
    assert numbers(traffic.describe_mix(table)) == ["100", "85.0%", "10.0%", "25", "5", "20"]
    assert traffic.operation_kinds(table)[["kind", "request_count"]].to_numpy().tolist() == [
        ["write, meta", 65],
        ["write, flush first, FUA, meta", 20],
        ["read", 10],
        ["flush", 5],
    ]


def test_throughput_has_its_idle_windows() -> None:
    # GIVEN requests in the first and the fourth second only
    table = frame(
        window_ns=[0, 3 * S],
        window_length_ns=[S] * 2,
        role=["swap"] * 2,
        operation=["read"] * 2,
        request_count=[1, 1],
        request_bytes=[4096, 8192],
    )
    # THEN the seconds between have none
    assert traffic.rate_by_role(table)["bytes_per_second"].tolist() == [4096, 0, 0, 8192]
    # and windows without a value are gaps
    table = pd.DataFrame({"window_ns": [0, 2], "role": ["fs"] * 2, "p99": [5.0, 7.0]})
    found = fmt.every_window(table, 1.0, values=["p99"], missing=math.nan)["p99"]
    assert found.isna().tolist() == [False, True, False]


def test_coverage_is_exact_between_its_rows() -> None:
    # GIVEN one block of 10 touches and ten of 1: half of the touches are the first block's
    table = frame(role=["fs"] * 2, hotter_bytes=[4096, 11 * 4096], traffic_ratio=[0.5, 1.0])
    assert locality.bytes_for(table, 0.5) == 4096
    # AND nine tenths (18 of 20) need eight of the ten others
    assert locality.bytes_for(table, 0.9) == 9 * 4096
    # AND a part of a block is a whole one
    assert locality.bytes_for(table, 0.51) == 2 * 4096
    assert numbers(locality.describe_coverage(table)) == ["4 KiB", "36 KiB", "44 KiB"]


def test_latency_keeps_flushing_writes_apart() -> None:
    table = frame(
        step=["wait", "wait", "d2c"],
        role=["journal"] * 3,
        operation=["write"] * 3,
        is_preflush=[False, True, True],
        request_count=[10, 5, 5],
        latency_min_ns=[1e3] * 3,
        latency_avg_ns=[2e3] * 3,
        latency_p50_ns=[2_000, 90_000, 70_000],
        latency_p99_ns=[3_000, 200_000, 80_000],
        latency_max_ns=[4e3] * 3,
    )
    sentences = latency.describe_latency(table)
    assert numbers(sentences) == ["2 µs", "99%", "3 µs", "90 µs", "99%", "200 µs"]
    assert ["flush" in sentence for sentence in sentences] == [False, True]
    rows = latency.service_rows(table)
    assert [(row["name"], row["count"]) for row in rows] == [
        ("journal write that flushes first", "5")
    ]


def test_processes_without_a_name_are_one_bar() -> None:
    table = frame(
        process=["mysqld", None, "mysqld"],
        process_rank=[1, 2, 1],
        role=["fs", "fs", "journal"],
        request_count=[5, 2, 3],
    )
    bars = traffic.by_name(table, "process")
    assert bars.to_dict("index") == {
        "mysqld": {"fs": 5, "journal": 3},
        "(name not known)": {"fs": 2, "journal": 0},
    }
    assert numbers(traffic.describe_processes(bars)[:1]) == ["8", "80.0%"]


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


SETS = [
    {
        "placement": placement,
        "capacity_bytes": 2 << 20,
        "fs_bytes": fs << 20,
        "journal_bytes": journal << 20,
        "swap_bytes": 0,
        "elapsed_ns": seconds * 10**9,
        "gain_ratio": 1 - seconds / 40,
    }
    for placement, fs, journal, seconds in (
        ("combined", 1, 1, 20),
        ("fs+swap", 2, 0, 30),
        ("swap", 0, 0, 40),
    )
]


def test_capacity_ranges_cover_everything_once() -> None:
    flips = [
        {"capacity_bytes": 4096, "from": "base", "to": "fs"},
        {"capacity_bytes": 1 << 20, "from": "fs", "to": "combined"},
    ]
    assert placement.ranges(flips) == [
        {"start": 0, "end": 4096, "placement": "nothing"},
        {"start": 4096, "end": 1 << 20, "placement": "file system"},
        {"start": 1 << 20, "end": None, "placement": "split"},
    ]
    assert placement.ranges([]) == []


def test_shares_name_only_what_gets_some() -> None:
    split = {"fs_bytes": 4 << 20, "journal_bytes": 3 << 19, "swap_bytes": 0}
    assert plain([front.shares(split)]) == ["4 MiB file system, 1.5 MiB journal"]
    assert front.placement_title("fs+journal") == "file system + journal"


def test_the_page_compares_the_sets_of_roles(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "trace")
    file = folder.path / "recommendation.json"
    file.write_text(json.dumps({**json_of(file), "role_sets": SETS}))
    (text,) = plain([page_of(folder, placement.capacity)])
    rows = re.findall(r'<th scope="row">([^<]+)</th><td class="wrap">([^<]+)</td>', text)
    assert rows == [
        ("all roles", "1 MiB file system, 1 MiB journal"),
        ("file system + swap", "2 MiB file system"),
        ("swap", "nothing on NVM"),
    ]


def test_what_the_kernel_saw_begins_with_what_it_did_not(tmp_path: Path) -> None:
    # GIVEN a replay that was observed, of which the tracer lost something
    folder = make_folder(tmp_path / "trace", stages=("classify", "analyze", "replay"))
    seen = {
        "source": "perf", "devices": ["loop0"], "lost_events": 3, "joined": 5, "unmatched": 1,
        "lead_ns": 2_000, "queue_error_ns": {"p50": 300, "p99": 9_000}, "merged": 0, "split": 4,
        "order_changes": {"queue": 1, "issue": 0}, "foreign": 7, "foreign_processes": {"dd": 7},
    }  # fmt: skip
    place = folder.path / "replays" / "file"
    write_json(place / "summary.json", {**json_of(place / "summary.json"), "observed": seen})
    row = {"request_id": 0, "intended_ns": 100, "queue_ns": 90, "submit_ns": 50, "complete_ns": 400}
    write_table(place / "observed.parquet", filled(OBSERVED, [row]))
    # WHEN its section is built
    built = replay.replay(Inputs(folder))
    assert isinstance(built, Section)
    kernel = built.parts["runs"][0]["kernel"]
    # THEN the loss comes first, and the table has what there is, in the order of a request
    assert numbers(kernel["sentences"]) == [
        *("3", "5", "1", "300 ns", "99%", "9 \N{MICRO SIGN}s", "2 \N{MICRO SIGN}s"),
        *("1", "0", "0", "4", "7"),
    ]
    assert kernel["times"].table[["measure", "time_min_ns"]].to_numpy().tolist() == [
        ["queued, from the intended time", -10],
        ["submitted to queued", 40],
    ]


def test_replay_facts_are_flat_and_have_units() -> None:
    summary = {"engine": {"used": "null"}, "late_ns": 5000, "done": 1200, "tags": ["a"]}
    assert plain([f"{name} = {value}" for name, value in replay.flat(summary)]) == [
        "engine.used = null",
        "late_ns = 5 µs",
        "done = 1,200",
        "tags = ['a']",
    ]


def test_the_commands_to_reproduce_are_quoted(whole: TraceFolder) -> None:
    section = section_of(front.reproduce, whole)
    assert section.parts["commands"] == [
        "sha256sum sda.blktrace.0 layout.json",
        "tracekit parse sda.blktrace.0 -o trace",
        "tracekit classify trace",
        "tracekit analyze trace",
        "tracekit recommend trace --base hdd-7200 --nvm dax-pcm",
        "tracekit replay trace --limit 240 --engine auto --pace trace --name file",
        "tracekit report trace",
    ]


def test_a_failed_check_is_a_warning(whole: TraceFolder) -> None:
    section = section_of(front.warnings, whole)
    assert section.parts["checks"] == []


SAMPLES = Path(__file__).resolve().parents[2] / "sample-traces"


def totals(**rows: tuple[int, int, int]) -> pd.DataFrame:
    """Return a table of totals: of each role its requests, sectors and different sectors."""
    return frame(
        role=list(rows),
        read_count=0,
        write_count=[row[0] for row in rows.values()],
        total_sectors=[row[1] for row in rows.values()],
        distinct_sectors=[row[2] for row in rows.values()],
    )


def test_a_role_is_hot_by_how_often_its_sectors_are_touched() -> None:
    # GIVEN a file system whose 25 different sectors are touched twice, and a journal once
    table = applications.counted(totals(fs=(10, 50, 25), journal=(30, 50, 50), other=(99, 9, 9)))
    # THEN it is hot, and what the study has not is not counted
    found = applications.shape(table, "fs", large="journal")
    assert found == applications.STUDY["OLTP"]
    traits = applications.words(table, found, capacity_bytes=1 << 20)
    assert numbers(list(traits.values())) == ["75.0%", "2.00", "1 MiB"]
    assert numbers(applications.describe(table, found)) == ["4"]


@pytest.mark.parametrize(("distinct", "is_hot"), [(1000, False), (667, False), (666, True)])
def test_the_only_role_can_be_hot(distinct: int, *, is_hot: bool) -> None:
    # GIVEN a trace with swap alone, whose bar of different sectors is shorter or not
    table = applications.counted(totals(swap=(10, 1000, distinct)))
    found = applications.shape(table, "swap", large="swap")
    # THEN it is hot by that, which the study's graph drawing is not
    assert found.hot == (("swap",) if is_hot else ())
    same = applications.agreement(found, applications.STUDY["graph drawing"])
    assert same == {"busiest": True, "hot": not is_hot, "small": True, "large": True}


def test_a_difference_has_the_numbers_of_the_trace() -> None:
    # GIVEN what is like a browser, but with most requests in the journal
    table = applications.counted(totals(fs=(10, 300, 300), journal=(30, 100, 100)))
    found = applications.shape(table, "fs", large="fs")
    # THEN there are the traits shared, the sectors of the file system, and 512 bytes * 300 / 10
    # of its requests beside 512 * 100 / 30 of the journal's
    sentences = applications.describe(table, found)
    assert numbers(sentences) == ["3", "4", "75.0%", "15 KiB", "1.67 KiB"]
    assert "like video and browser" in sentences[0]


def test_a_trace_can_be_like_two_or_none() -> None:
    # GIVEN a hot journal with most requests, as no application of the study has
    table = applications.counted(totals(fs=(10, 60, 60), journal=(30, 40, 10)))
    # THEN with the file system as the best use of any NVM it shares two traits with two of them
    found = applications.shape(table, "fs", large="fs")
    hot = ["1.00", "4.00", "1.5"]
    assert numbers(applications.describe(table, found)) == [
        *("2", "4"),
        *("5 KiB", *hot),
        *("60.0%", "3 KiB", "683 B", *hot),
    ]
    # and with none of the study's roles as the best one, or with swap hot, none
    swapped = applications.Shape("other", ("swap",), "other", "other")
    assert numbers(applications.describe(table, swapped)) == []


def test_a_role_without_traffic_has_no_share() -> None:
    table = applications.counted(totals(fs=(10, 300, 300), swap=(0, 0, 0)))
    found = applications.shape(table, "fs", large="fs")
    assert list(table.index) == ["fs"]
    assert found == applications.STUDY["video and browser"]


@pytest.mark.parametrize(
    ("sample", "expected", "differing"),
    [
        # The study's gnuplot came back to its swap less often: a sector here is touched 2.70 times.
        ("gnuplot", "graph drawing", {"hot"}),
        # With a head for each device the file system gains most at every capacity: what is left on
        # the disk is the journal, which is written in sequence. The study's disk has no head.
        ("sysbench", "OLTP", {"large"}),
        # And so 20 KiB of journal between long sequential writes gain most of little NVM.
        ("video", "video and browser", {"small"}),
        # Under emulation the journal commits more often beside what a visit reads and writes.
        ("browser", "video and browser", {"busiest"}),
    ],
)
def test_shapes_of_samples(sample: str, expected: str, differing: set[str], tmp_path: Path) -> None:
    folder, _ = parse([SAMPLES / sample], tmp_path / "trace")
    classify(folder, Roles())
    analyze(folder, only=["totals"])
    recommend(folder, RecommendOptions(base="hdd-7200"))
    section: Any = applications.applications(Inputs(folder))
    # THEN they are those of the study's application but for what is known to differ
    agrees = section.parts["agrees"][expected]
    assert {trait for trait, is_same in agrees.items() if not is_same} == differing
    assert expected in section.parts["sentences"][0]


@pytest.fixture
def folder(tmp_path: Path) -> TraceFolder:
    folder = make_folder(tmp_path / "trace")
    recommend(folder, RecommendOptions(base="hdd-7200-seek", queueing="open"))
    return folder


def test_the_section_tells_of_response_times(folder: TraceFolder) -> None:
    # GIVEN a recommendation with queues, WHEN its section is made
    section = placement.capacity(Inputs(folder))
    # THEN title, figure and sentences are of the mean response time, in the table's numbers
    assert isinstance(section, Section)
    assert section.title == "Response time against NVM capacity"
    panel = section.parts["panels"][0]["figure"]
    assert panel.title == "Mean response time, hottest blocks first"
    assert plain(panel.sentences)[0].startswith("Without NVM a request takes on average ")
    # AND the disk's keys are among what is told of the devices
    assert ("seek_average_us", "\N{MICRO SIGN}s an average seek") in section.parts["profile_keys"]


def test_the_page_has_all_three_times(folder: TraceFolder) -> None:
    text = page_of(folder, placement.capacity)
    assert "from the first arrival to the last completion" in text
    assert "with a queue for each device" in text
    assert "Elapsed time of all requests" not in text
