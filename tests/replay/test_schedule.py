"""The part of a trace that is replayed, resuming it, and the timing budget, by the command."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import Result

from tests.command_line import invoke, refused
from tests.replay.trace import trace
from tracekit import store
from tracekit.errors import BudgetError, TracekitError, UsageError
from tracekit.replay.player import Schedule
from tracekit.replay.summary import Distribution, ReplaySummary, Timing, check_budget, parse_budget
from tracekit.store import TraceFolder
from tracekit.units import parse_duration

MS = 1_000_000
Steady = Callable[..., TraceFolder]


@pytest.fixture
def steady(tmp_path: Path) -> Steady:
    """Return a function that makes a trace of a read a millisecond, each of which took 0.2 ms."""

    def make(count: int = 100, *, took_ns: int | None = MS // 5) -> TraceFolder:
        times = (500 * MS + number * MS for number in range(count))
        rows = [
            {
                "queue_ns": at_ns,
                "complete_ns": None if took_ns is None else at_ns + took_ns,
                "sector": 8 * number,
                "operation": "read",
            }
            for number, at_ns in enumerate(times)
        ]
        return trace(tmp_path / "trace", rows)

    return make


def replay(folder: TraceFolder, words: str = "", *, code: int | None = 0) -> Result:
    done = invoke("replay", folder.path, "--engine", "null", *words.split())
    assert code is None or done.exit_code == code, done.output
    return done


def rows_of(folder: TraceFolder, name: str = "latest") -> list[dict[str, Any]]:
    table = pq.read_table(folder.path / "replays" / name / "completions.parquet")
    return sorted(table.to_pylist(), key=lambda row: row["request_id"])


def summary_of(folder: TraceFolder, name: str = "latest") -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder.path / "replays" / name / "summary.json").read_text())
    return told


def test_a_part_of_the_trace_is_counted_from_its_first_request(steady: Steady) -> None:
    folder = steady()
    replay(folder, "--start 20ms --end 0.03s")
    rows = rows_of(folder)
    assert [row["request_id"] for row in rows] == list(range(20, 30))
    assert [row["intended_ns"] for row in rows] == [n * MS for n in range(10)]


def test_a_closed_loop_takes_its_think_times_from_the_trace(steady: Steady) -> None:
    folder = steady(20)
    assert "closed loop" in replay(folder, "--pace closed").stdout
    # Each came 0.8 ms after the completion of the one before it.
    for before, row in itertools.pairwise(rows_of(folder)):
        assert row["intended_ns"] == before["complete_ns"] + 800_000


def test_a_closed_loop_needs_completions(steady: Steady) -> None:
    folder = steady(took_ns=None)
    refused(replay(folder, "--pace closed", code=None), "the trace has no completions")
    assert not (folder.path / "replays" / "latest").exists()


def test_an_interrupted_replay_goes_on_where_it_ended(steady: Steady) -> None:
    folder = steady()
    replay(folder, "--limit 90")
    # GIVEN the summary of a replay that was stopped after some requests
    told = summary_of(folder)
    told["outcome"] = "interrupted"
    told["counts"]["not_reached"] = told["counts"]["planned"] - 33
    told["window"]["next"] = told["window"]["first"] + 33
    store.write_json(folder.path / "replays/latest/summary.json", told)
    # WHEN it is resumed
    replay(folder, "--resume latest --name rest")
    rows = rows_of(folder, "rest")
    assert [row["request_id"] for row in rows] == list(range(33, 90))
    assert [row["intended_ns"] for row in rows] == [n * MS for n in range(57)]
    assert summary_of(folder, "rest")["resumed"] == "latest"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--resume latest --name rest", "nothing is left to do"),
        ("--resume none --name rest", "holds no replay"),
        ("--resume latest", "its own results would be replaced"),
        ("--late drop --pace closed", "--late drop needs --pace trace"),
        ("--late-limit 5", "--late-limit: '5' is not a time"),
        ("--max-idle 1parsec", "--max-idle: '1parsec' is not a time"),
        ("--budget p98=1ms", "--budget p98=1ms: not MEASURE=TIME"),
        ("--budget p99", "--budget p99: not MEASURE=TIME"),
        ("--budget p99=1", "--budget p99: '1' is not a time"),
        ("--budget p99=1ms --pace fast", "no times to keep with --pace fast"),
        ("--start 1h", "--start 1h: the last request is"),
        ("--start 2s --end 1s", "--end 1s: not later than --start 2s"),
        ("--end 0s", "--end 0s: not later than --start 0"),
        ("--resume latest --start 1s --name b", "--resume latest starts where"),
    ],
)
def test_refusals_name_the_option(steady: Steady, words: str, message: str) -> None:
    folder = steady(3)
    replay(folder)
    refused(replay(folder, words, code=None), message, error=TracekitError)
    assert [place.name for place in (folder.path / "replays").iterdir()] == ["latest"]


def test_a_missed_budget_has_an_exit_code_of_its_own(steady: Steady) -> None:
    folder = steady(20)
    replay(folder, "--budget p50=10s --budget duration=10s")
    missed = replay(folder, "--budget p99=0ns --budget drift=1h", code=None)
    refused(missed, "missed its timing budget: p99", error=BudgetError)
    assert BudgetError.exit_code == 4
    told = {entry["measure"]: entry["is_kept"] for entry in summary_of(folder)["budget"]}
    assert told == {"p99": False, "drift": True}


def test_a_budget_looks_at_both_sides_of_the_duration() -> None:
    timing = Timing(elapsed_ns=1, duration_error_ns=-2000, drift_ns=-0.5)
    summary = ReplaySummary(issue_error=Distribution(p99_9_ns=7), timing=timing)
    found = check_budget(summary, parse_budget(["duration=1us", "drift=1ns", "p99.9=7ns"]))
    kept = [(entry.found_ns, entry.is_kept) for entry in found]
    assert kept == [(2000, False), (0.5, True), (7, True)]


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
    words = "--pace trace --late slip --late-limit-ns 2000000 --max-idle-ns 1000000000"
    words += " --from-ns 10000000000 --until-ns 20000000000"
    assert schedule.arguments(0) == words.split()
