"""`tracekit compare`: times against numbers worked out by hand, and names that are none."""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import Result

from tests.command_line import invoke, refused, succeed
from tests.replay.trace import trace
from tests.traces import json_of, rows_of
from tracekit.errors import UsageError
from tracekit.repeats import mean_of, ratio_of
from tracekit.report.inputs import Inputs
from tracekit.report.section import Section
from tracekit.report.sections.replay import comparison, points
from tracekit.store import TraceFolder, write_json, write_table
from tracekit.tables import COMPLETIONS

ROWS: list[dict[str, Any]] = [
    {"queue_ns": 0, "issue_ns": 10, "complete_ns": 110, "role": "fs", "operation": "read"},
    {"queue_ns": 50, "issue_ns": 60, "complete_ns": 360, "role": "fs", "operation": "read"},
    {"queue_ns": 60, "issue_ns": None, "complete_ns": 360, "role": "fs", "operation": "read",
     "merged_into": 1},
    {"queue_ns": 70, "issue_ns": 80, "complete_ns": 1080, "role": "journal"},
    {"queue_ns": 90, "issue_ns": 95, "complete_ns": 9095, "role": "swap"},
]  # fmt: skip


def add_replay(
    folder: TraceFolder, name: str, service_ns: dict[int, int], elapsed_ns: int, *, pace: str = ""
) -> None:
    """Write a replay in which each request took so long."""
    place = folder.path / "replays" / name
    place.mkdir(parents=True)
    rows = [
        {"request_id": one, "intended_ns": 0, "submit_ns": 5, "complete_ns": 5 + took,
         "error": 0, "target": 0, "status": "done"}
        for one, took in service_ns.items()
    ]  # fmt: skip
    write_table(place / "completions.parquet", pa.Table.from_pylist(rows, COMPLETIONS))
    summary = {"timing": {"elapsed_ns": elapsed_ns}, "counts": {"done": len(rows)}, "name": name}
    write_json(place / "summary.json", {**summary, "pace": pace})


@pytest.fixture
def folder(tmp_path: Path) -> TraceFolder:
    made = trace(tmp_path / "trace", ROWS)
    for number, factor in enumerate((10, 20, 30), 1):
        took = {0: factor, 1: 3 * factor, 3: 100}
        add_replay(made, f"base.{number}", took, 1000 * factor)
    add_replay(made, "fast", {0: 5, 1: 15, 3: 50}, 5000)
    return made


def compare(folder: TraceFolder, *names: str) -> Result:
    return invoke("compare", folder.path, *names)


def found_rows(folder: TraceFolder) -> dict[tuple[str, ...], dict[str, Any]]:
    rows = rows_of(folder.path / "comparison.parquet")
    return {(r["name"], r["measure"], r["role"], r["operation"]): r for r in rows}


def test_repeats_are_one_name_with_an_interval(folder: TraceFolder) -> None:
    assert compare(folder, "base", "fast").exit_code == 0
    rows = found_rows(folder)
    # 10, 20, 30: mean 20, standard error 10 / sqrt(3), t(0.975, 2) = 4.303, times 1000
    elapsed = rows["base", "elapsed", "all", "all"]
    assert (elapsed["repeats"], elapsed["time_ns"]) == (3, 20_000)
    assert elapsed["time_high_ns"] - 20_000 == pytest.approx(4.303 * 10_000 / math.sqrt(3), 1e-3)
    assert elapsed["time_low_ns"] == 0  # 20,000 less 24,800: no time is below nothing
    narrow = mean_of([19_000, 20_000, 21_000])
    assert narrow.low is not None
    assert 20_000 - narrow.low == pytest.approx(4.303 * 1000 / math.sqrt(3), 1e-3)
    # fs reads took 1 and 3 times the factor: their mean is twice the factor
    assert rows["base", "service_avg", "fs", "read"]["time_ns"] == 40
    assert rows["base", "service_p50", "fs", "read"]["time_ns"] == 20
    assert rows["base", "service_p99", "fs", "read"]["time_ns"] == 60
    assert rows["base", "service_avg", "fs", "read"]["request_count"] == 2
    # the journal took the same in each
    journal = rows["base", "service_avg", "journal", "write"]
    assert (journal["time_low_ns"], journal["time_high_ns"]) == (100, 100)
    assert rows["fast", "service_avg", "journal", "write"]["ratio"] == pytest.approx(0.5)
    fast = rows["fast", "elapsed", "all", "all"]
    assert fast["ratio"] == pytest.approx(5000 / (1000 * (10 * 20 * 30) ** (1 / 3)))
    assert (fast["time_low_ns"], fast["ratio_low"]) == (None, None)


def test_the_trace_counts_with_the_requests_that_were_replayed(folder: TraceFolder) -> None:
    done = compare(folder, "trace", "fast")
    assert done.exit_code == 0
    rows = found_rows(folder)
    # D2C of requests 0 and 1: 100 and 300; that of 3 is 1000; 2 is merged, 4 was not replayed
    assert rows["trace", "service_avg", "fs", "read"]["time_ns"] == 200
    assert rows["trace", "service_avg", "fs", "read"]["request_count"] == 2
    assert rows["trace", "service_avg", "journal", "write"]["time_ns"] == 1000
    assert rows["trace", "elapsed", "all", "all"]["time_ns"] == 1080
    assert ("trace", "service_avg", "swap", "write") not in rows
    assert "journal write 95.0% less" in done.stdout
    assert done.stderr == ""


def test_what_trace_and_replay_cannot_say_is_a_warning(folder: TraceFolder) -> None:
    # GIVEN a replay at the pace of the trace, of requests of which the trace merged one
    add_replay(folder, "paced", {0: 5, 1: 15, 2: 15, 3: 50}, 5000, pace="trace")
    said = " ".join(compare(folder, "trace", "paced").stderr.split())
    assert "paced kept the pace of the trace: elapsed times cannot differ" in said
    assert "have no service time of their own: fs read 2 of 3;" in said


def test_a_replay_of_other_requests_has_no_ratio_of_lengths(folder: TraceFolder) -> None:
    # GIVEN a replay of half the requests, beside one whose requests are counted of the trace
    add_replay(folder, "half", {0: 5}, 50)
    done = compare(folder, "trace", "fast", "half")
    # THEN its length is no share of theirs
    rows = found_rows(folder)
    assert rows["fast", "elapsed", "all", "all"]["ratio"] == pytest.approx(5000 / 1080)
    assert rows["half", "elapsed", "all", "all"]["ratio"] is None
    words = " ".join(done.stdout.split())
    assert "half took 50 ns for 1 requests, trace 1.08 us for 3: not the same work" in words


def test_a_role_that_only_one_has_is_compared_with_nothing(folder: TraceFolder) -> None:
    add_replay(folder, "more", {0: 5, 1: 6, 4: 7}, 10)
    assert compare(folder, "fast", "more").exit_code == 0
    assert found_rows(folder)["more", "service_avg", "swap", "write"]["ratio"] is None
    section = comparison(Inputs(TraceFolder(folder.path)))
    assert isinstance(section, Section)
    kinds = points(section.parts["figure"].evidence.table, ["fast", "more"])["kind"].tolist()
    assert kinds == ["more: elapsed", "more: file system read"]


def test_runs_of_other_requests_are_not_compared_in_length(folder: TraceFolder) -> None:
    # GIVEN a run that was ended early, beside one of the same requests, of which one failed
    for name, count in (("whole", 1000), ("again", 991), ("ended", 400)):
        add_replay(folder, name, {0: 5, 1: 7}, 1_000_000 + count)
        file = folder.path / "replays" / name / "summary.json"
        write_json(file, {**json_of(file), "counts": {"done": count}})
    done = compare(folder, "whole", "again", "ended")
    # THEN only the lengths of those of the same work have a ratio
    rows = found_rows(folder)
    assert rows["again", "elapsed", "all", "all"]["ratio"] == pytest.approx(1.000991 / 1.001)
    assert rows["ended", "elapsed", "all", "all"]["ratio"] is None
    assert rows["ended", "service_avg", "fs", "read"]["ratio"] == 1
    words = " ".join(done.stdout.split())
    assert "ended took 1 ms for 400 requests, whole 1 ms for 1,000: not the same work" in words
    assert "again took 1 ms: against whole" in words


def test_the_answer_is_kept_in_words_too(folder: TraceFolder) -> None:
    done = compare(folder, "fast", "base")
    told = json_of(folder.path / "comparison.json")
    assert told["replays"] == {"fast": ["fast"], "base": ["base.1", "base.2", "base.3"]}
    assert "base took 20 us: against fast 3.63 times as long." in told["headline"]
    assert "\n".join(told["headline"]) in done.stdout
    assert comparison(Inputs(trace(folder.path.parent / "other", ROWS))) is None


def test_ten_repeats_stand_in_the_order_of_their_numbers(folder: TraceFolder) -> None:
    for number in range(1, 11):
        add_replay(folder, f"many.{number}", {0: number}, number)
    assert compare(folder, "fast", "many").exit_code == 0
    told = json_of(folder.path / "comparison.json")
    assert told["replays"]["many"][-2:] == ["many.9", "many.10"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("fast",), "no trace folder of this name"),
        ((), "name two or more"),
        (("fast", "fast"), "comes twice"),
        (("fast", "slow"), "there is no replay 'slow'"),
        (("fast", "base.4"), "there is no replay 'base.4'"),
    ],
)
def test_refusals(folder: TraceFolder, names: tuple[str, ...], message: str) -> None:
    refused(compare(folder, *names), message)
    assert not (folder.path / "comparison.json").exists()


def test_the_interval_of_a_ratio_is_welchs_of_logarithms() -> None:
    # logarithms 0, 1, 2 and 1, 2, 3: apart by 1, standard error sqrt(2 / 3), t(0.975, 4) = 2.776
    found = ratio_of([math.exp(n) for n in (0, 1, 2)], [math.exp(n) for n in (1, 2, 3)])
    assert found is not None
    assert math.log(found.mean) == pytest.approx(-1)
    width = 2.776 * math.sqrt(2 / 3)
    assert [found.low, found.high] == pytest.approx(
        [math.exp(-1 - width), math.exp(-1 + width)], 1e-3
    )


def test_what_does_not_spread_has_no_width() -> None:
    assert mean_of([5.0, 5.0, 5.0]) == mean_of([5.0, 5.0])
    same = ratio_of([5.0, 5.0], [10.0, 10.0])
    assert same is not None
    assert (same.low, same.mean, same.high) == pytest.approx((0.5, 0.5, 0.5))
    assert ratio_of([0.0], [1.0]) is None
    one_sided = ratio_of([5.0, 5.0, 5.0], [9.0, 10.0, 11.0])
    assert one_sided is not None
    assert (one_sided.low or 1) < 0.5 < (one_sided.high or 0)


def test_a_replay_repeats_under_numbered_names(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", ROWS)
    arguments = ["replay", str(folder.path), "--engine", "null", "--repeat", "3", "--name", "n"]
    succeed(*arguments)
    names = sorted(path.name for path in (folder.path / "replays").iterdir())
    assert names == ["n.1", "n.2", "n.3"]
    refused(invoke(*arguments))
    wrong = invoke("replay", folder.path, "--repeat", "0")
    assert isinstance(wrong.exception, UsageError)


def test_an_emulation_that_was_too_late_is_named(folder: TraceFolder) -> None:
    for name, is_within in (("fast", False), ("base.1", True)):
        file = folder.path / "replays" / name / "summary.json"
        write_json(file, {**json_of(file), "emulation": {"is_within_budget": is_within}})
    compare(folder, "base", "fast")
    said = {
        one["code"]: one["message"] for one in json_of(folder.path / "comparison.json")["warnings"]
    }
    assert said["emulation_late"].startswith("the emulation was too late in fast: these times")
