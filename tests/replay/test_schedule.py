"""The part of a trace that is replayed, resuming it, and the timing budget, by the command."""

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from tests.replay.trace import trace
from tracekit import store
from tracekit.cli import app
from tracekit.errors import BudgetError, TracekitError, UsageError
from tracekit.replay.player import Schedule
from tracekit.replay.summary import (
    Distribution,
    ReplaySummary,
    Timing,
    check_budget,
    parse_budget,
)
from tracekit.store import TraceFolder
from tracekit.units import parse_duration

MS = 1_000_000


def steady(tmp_path: Path, count: int = 100, *, is_complete: bool = True) -> TraceFolder:
    """Make a trace of a read a millisecond, each of which took 0.2 ms."""
    return trace(
        tmp_path / "trace",
        [
            {
                "queue_ns": 500 * MS + number * MS,
                "complete_ns": 500 * MS + number * MS + MS // 5 if is_complete else None,
                "sector": 8 * number,
                "operation": "read",
            }
            for number in range(count)
        ],
    )


def replay(folder: TraceFolder, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["replay", str(folder.path), "--engine", "null", *arguments])


def rows_of(folder: TraceFolder, name: str = "latest") -> list[dict[str, Any]]:
    table = pq.read_table(folder.path / "replays" / name / "completions.parquet")
    return sorted(table.to_pylist(), key=lambda row: row["request_id"])


def summary_of(folder: TraceFolder, name: str = "latest") -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder.path / "replays" / name / "summary.json").read_text())
    return told


def test_a_part_of_the_trace_is_counted_from_its_first_request(tmp_path: Path) -> None:
    folder = steady(tmp_path)
    assert replay(folder, "--start", "20ms", "--end", "0.03s").exit_code == 0
    rows = rows_of(folder)
    assert [row["request_id"] for row in rows] == list(range(20, 30))
    assert [row["intended_ns"] for row in rows] == [n * MS for n in range(10)]


def test_a_closed_loop_takes_its_think_times_from_the_trace(tmp_path: Path) -> None:
    folder = steady(tmp_path, 20)
    done = replay(folder, "--pace", "closed")
    assert done.exit_code == 0
    assert "closed loop" in done.stdout
    rows = rows_of(folder)
    # Each came 0.8 ms after the completion of the one before it.
    for before, row in itertools.pairwise(rows):
        assert row["intended_ns"] == before["complete_ns"] + 800_000


def test_a_closed_loop_needs_completions(tmp_path: Path) -> None:
    folder = steady(tmp_path, is_complete=False)
    done = replay(folder, "--pace", "closed")
    assert isinstance(done.exception, UsageError)
    assert "the trace has no completions" in str(done.exception)
    assert not (folder.path / "replays" / "latest").exists()


def interrupt(folder: TraceFolder, reached: int) -> None:
    """Make the summary of the latest replay that of one which was stopped after some requests."""
    file = folder.path / "replays" / "latest" / "summary.json"
    told = json.loads(file.read_text())
    told["outcome"] = "interrupted"
    told["counts"]["not_reached"] = told["counts"]["planned"] - reached
    told["window"]["next"] = told["window"]["first"] + reached
    store.write_json(file, told)


def test_an_interrupted_replay_goes_on_where_it_ended(tmp_path: Path) -> None:
    folder = steady(tmp_path)
    assert replay(folder, "--limit", "90").exit_code == 0
    interrupt(folder, 33)
    assert replay(folder, "--resume", "latest", "--name", "rest").exit_code == 0
    rows = rows_of(folder, "rest")
    assert [row["request_id"] for row in rows] == list(range(33, 90))
    assert [row["intended_ns"] for row in rows] == [n * MS for n in range(57)]
    assert summary_of(folder, "rest")["resumed"] == "latest"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--resume", "latest", "--name", "rest"), "nothing is left to do"),
        (("--resume", "none", "--name", "rest"), "holds no replay"),
        (("--resume", "latest"), "its own results would be replaced"),
        (("--late", "drop", "--pace", "closed"), "--late drop needs --pace trace"),
        (("--late-limit", "5"), "--late-limit: '5' is not a time"),
        (("--max-idle", "1parsec"), "--max-idle: '1parsec' is not a time"),
        (("--budget", "p98=1ms"), "--budget p98=1ms: not MEASURE=TIME"),
        (("--budget", "p99"), "--budget p99: not MEASURE=TIME"),
        (("--budget", "p99=1"), "--budget p99: '1' is not a time"),
        (("--budget", "p99=1ms", "--pace", "fast"), "no times to keep with --pace fast"),
        (("--start", "1h"), "--start 1h: the last request is"),
        (("--start", "2s", "--end", "1s"), "--end 1s: not later than --start 2s"),
        (("--end", "0s"), "--end 0s: not later than --start 0"),
        (("--resume", "latest", "--start", "1s", "--name", "b"), "--resume latest starts where"),
    ],
)
def test_refusals_name_the_option(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    folder = steady(tmp_path, 3)
    assert replay(folder).exit_code == 0
    done = replay(folder, *arguments)
    assert isinstance(done.exception, TracekitError)
    assert message in str(done.exception)
    assert [place.name for place in (folder.path / "replays").iterdir()] == ["latest"]


@pytest.mark.parametrize(("option", "word"), [("--pace", "slow"), ("--late", "never")])
def test_an_unknown_word_is_rejected_by_the_parser(tmp_path: Path, option: str, word: str) -> None:
    folder = steady(tmp_path, 3)
    done = replay(folder, option, word)
    assert done.exit_code == 2
    assert f"Invalid value for '{option}'" in done.stderr
    assert not (folder.path / "replays").exists()


def test_a_missed_budget_has_an_exit_code_of_its_own(tmp_path: Path) -> None:
    folder = steady(tmp_path, 20)
    kept = replay(folder, "--budget", "p50=10s", "--budget", "duration=10s")
    assert kept.exit_code == 0
    missed = replay(folder, "--budget", "p99=0ns", "--budget", "drift=1h")
    assert isinstance(missed.exception, BudgetError)
    assert missed.exception.exit_code == 4
    assert "missed its timing budget: p99" in str(missed.exception)
    told = {entry["measure"]: entry["is_kept"] for entry in summary_of(folder)["budget"]}
    assert told == {"p99": False, "drift": True}


def test_a_budget_looks_at_both_sides_of_the_duration() -> None:
    timing = Timing(elapsed_ns=1, duration_error_ns=-2000, drift_ns=-0.5)
    summary = ReplaySummary(issue_error=Distribution(p99_9_ns=7), timing=timing)
    found = check_budget(summary, parse_budget(["duration=1us", "drift=1ns", "p99.9=7ns"]))
    assert [(entry.found_ns, entry.is_kept) for entry in found] == [
        (2000, False),
        (0.5, True),
        (7, True),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("250us", 250_000), ("1.5s", 1_500_000_000), ("10 min", 600 * 10**9), ("1h", 3600 * 10**9),
     ("0ns", 0), ("9000000000.000000001s", 9_000_000_000_000_000_001), ("2ms", 2 * MS)],
)  # fmt: skip
def test_a_time_is_read_exactly(text: str, expected: int) -> None:
    assert parse_duration(text, option="--x") == expected


@pytest.mark.parametrize("text", ["", "5", "s", "-1s", "1 d", "1e3s", "99999999999s"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--x"):
        parse_duration(text, option="--x")


def test_a_schedule_says_all_it_means_to_the_program() -> None:
    schedule = Schedule("trace", "slip", "2ms", "1s", "10s", "20s")
    assert schedule.arguments(0) == [
        *("--pace", "trace", "--late", "slip", "--late-limit-ns", "2000000"),
        *("--max-idle-ns", "1000000000", "--from-ns", "10000000000"),
        *("--until-ns", "20000000000"),
    ]
