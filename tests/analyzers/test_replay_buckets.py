"""What one pass counts of replays, beside the same worked out completion by completion."""

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.analyzers.folder import make
from tests.traces import Row
from tracekit import query, replay_buckets

STATUSES = ("done", "done", "done", "skipped_read_only", "failed")


def some_completions(seed: int, count: int) -> dict[str, list[Row]]:
    """Return requests, and completions of two replays: several of some requests, none of others."""
    pick = random.Random(seed)  # noqa: S311 - a fixed sequence, no secret
    requests: list[Row] = [
        {
            "queue_ns": 10 * at,
            "issue_ns": pick.choice((None, 10 * at + 5)),
            "complete_ns": pick.choice((None, 10 * at + pick.randrange(5, 10**6))),
            "merged_into": pick.choice((None, None, 0)),
            "role": pick.choice(("fs", "journal")),
            "operation": pick.choice(("read", "write", None)),
            "length_bytes": pick.choice((0, 512, 4096)),
            "request_id": at,
        }
        for at in range(count)
    ]
    completions: list[Row] = []
    for replay in ("fast", "slow"):
        for _ in range(count):
            submit = pick.randrange(10**8)
            completions.append(
                {
                    "replay": replay,
                    "request_id": pick.randrange(count),
                    "intended_ns": pick.choice((None, submit - 40, submit + 70)),
                    "submit_ns": submit,
                    "complete_ns": submit + pick.randrange(10**6),
                    "error": pick.choice((0, 0, -5)),
                    "status": pick.choice(STATUSES),
                }
            )
    return {"requests": requests, "completions": completions}


def times_of(row: Row, request: Row) -> dict[str, int | None]:
    """Return the measures of a request that was done, as the view replay_times has them."""
    is_timed = row["intended_ns"] is not None
    began = request["queue_ns"] if request["issue_ns"] is None else request["issue_ns"]
    was_seen = request["complete_ns"] is not None and request["merged_into"] is None
    return {
        "late": max(row["submit_ns"] - row["intended_ns"], 0) if is_timed else None,
        "service": row["complete_ns"] - row["submit_ns"],
        "response": max(row["complete_ns"] - row["intended_ns"], 0) if is_timed else None,
        "traced": request["complete_ns"] - began if was_seen else None,
    }


def simulated(tables: dict[str, list[Row]]) -> tuple[dict[Any, list[int]], dict[Any, list[int]]]:
    """Return times by replay, measure, role and operation, and bytes by window of a hundred."""
    times, moved = defaultdict(list), defaultdict(list)
    done = [row for row in tables["completions"] if row["status"] == "done"]
    for row in done:
        request = tables["requests"][row["request_id"]]
        for measure, ns in times_of(row, request).items():
            if ns is not None:
                key = (row["replay"], measure, request["role"], request["operation"])
                times[key].append(ns)
        last = max(one["submit_ns"] for one in done if one["replay"] == row["replay"])
        window = row["submit_ns"] // (last // 100 + 1)
        moved[row["replay"], window, request["operation"]].append(request["length_bytes"])
    return times, moved


@pytest.mark.parametrize("seed", range(4))
def test_pass_in_parts_is_what_each_completion_says(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN completions in no order, and parts that a few requests fill
    monkeypatch.setattr(replay_buckets, "PART_REQUESTS", 37)
    tables = some_completions(seed, 400)
    with query.connect(make(tmp_path / "trace", tables)) as connection:
        replayed, over_time, outcomes = (
            query.run(connection, f"replay/{name}").to_pylist()
            for name in ("replayed", "replayed_over_time", "outcomes")
        )
        curves = query.run(connection, "replay/replayed_distribution").to_pylist()
    # THEN the tables are those of a walk over the completions
    times, moved = simulated(tables)
    found = {
        (row["replay"], row["measure"], row["role"], row["operation"]): (
            row["request_count"], row["time_avg_ns"], row["time_max_ns"],
        )
        for row in replayed
    }  # fmt: skip
    assert found == {
        key: (len(ns), pytest.approx(sum(ns) / len(ns)), max(ns)) for key, ns in times.items()
    }
    assert sum(row["request_count"] for row in curves) == sum(map(len, times.values()))
    bytes_of = {
        (row["replay"], row["window_number"], row["operation"]): (
            row["request_count"],
            row["bytes_per_second"] * row["window_length_ns"] / 1e9,
        )
        for row in over_time
    }
    assert bytes_of == {
        key: (len(of), pytest.approx(sum(of))) for key, of in moved.items() if key[2] is not None
    }
    assert outcome_counts(outcomes) == simulated_outcomes(tables)


def outcome_counts(rows: list[Row]) -> dict[Any, tuple[Any, ...]]:
    numbers = ("request_count", "error_count", "first_ns", "last_ns", "complete_ns")
    return {
        (row["replay"], row["status"], row["operation"]): tuple(row[name] for name in numbers)
        for row in rows
    }


def simulated_outcomes(tables: dict[str, list[Row]]) -> dict[Any, tuple[Any, ...]]:
    kinds = defaultdict(list)
    for row in tables["completions"]:
        operation = tables["requests"][row["request_id"]]["operation"]
        kinds[row["replay"], row["status"], operation].append(row)
    found = {}
    for key, rows in kinds.items():
        intended = [row["intended_ns"] for row in rows if row["intended_ns"] is not None]
        errors = sum(row["error"] != 0 for row in rows)
        span = (min(intended, default=None), max(intended, default=None))
        found[key] = (len(rows), errors, *span, max(row["complete_ns"] for row in rows))
    return found


def test_windows_are_as_many_as_wanted(tmp_path: Path) -> None:
    tables = some_completions(1, 200)
    with query.connect(make(tmp_path / "trace", tables)) as connection:
        for count in (100, 7, 100):
            rows = query.run(connection, "replay/replayed_over_time", window_count=count)
            windows = rows.column("window_number").to_pylist()
            assert max(windows) == count - 1


def test_a_report_needs_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    tables = replay_buckets.Pass.tables

    def noted(one: replay_buckets.Pass) -> dict[str, Any]:
        made.append(one)
        return tables(one)

    monkeypatch.setattr(replay_buckets.Pass, "tables", noted)
    with query.connect(make(tmp_path / "trace", some_completions(1, 50))) as connection:
        for name in ("outcomes", "replayed", "replayed_distribution", "replayed_over_time"):
            query.run(connection, f"replay/{name}")
    assert len(made) == 1
