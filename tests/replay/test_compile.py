"""From a trace to a plan: which requests, when, where."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.replay.trace import trace
from tracekit.errors import InputError, UsageError
from tracekit.plans import block_plan
from tracekit.replay.compiler import PlanOptions, PlanReport, compile_plan
from tracekit.replay.source import BATCH_ROWS


def compiled(
    tmp_path: Path, rows: list[dict[str, Any]], **options: Any
) -> tuple[list[tuple[int, ...]], PlanReport]:
    """Return the plan's records as (intended_ns, sector, id, sectors, operation, flags, target)."""
    folder = trace(tmp_path / "trace", rows)
    report = compile_plan(folder, tmp_path / "plan.bin", options=PlanOptions(**options))
    data = (tmp_path / "plan.bin").read_bytes()
    end = block_plan.HEADER.itemsize + report.requests * block_plan.RECORD.itemsize
    records = np.frombuffer(data[block_plan.HEADER.itemsize : end], block_plan.RECORD)
    named = list(block_plan.RECORD.names or ())[:7]
    return [tuple(int(row[name]) for name in named) for row in records], report


def test_as_queued_every_request_is_at_its_queue_time(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"queue_ns": 1000, "sector": 8, "length_bytes": 512, "operation": "read"},
        {"queue_ns": 1500, "sector": 16, "merged_into": 0, "is_sync": True, "is_fua": True},
        {"queue_ns": 1500, "operation": "flush", "length_bytes": 0, "is_preflush": True},
        {"queue_ns": 9000, "sector": 64, "operation": "discard", "length_bytes": 1 << 33},
        {"queue_ns": 9001, "sector": 64, "operation": "write_zeroes", "is_meta": True},
    ]
    records, report = compiled(tmp_path, rows)
    assert records == [
        (0, 8, 0, 1, block_plan.READ, 0, 0),
        (500, 16, 1, 8, block_plan.WRITE, block_plan.SYNC | block_plan.FUA, 0),
        (500, 0, 2, 0, block_plan.FLUSH, block_plan.PREFLUSH, 0),
        (8000, 64, 3, 1 << 24, block_plan.DISCARD, 0, 0),
        (8001, 64, 4, 8, block_plan.WRITE_ZEROES, block_plan.META, 0),
    ]
    assert report.skipped == {}
    assert report.targets == [{"label": "default", "needed_bytes": 64 * 512 + (1 << 33)}]


def test_as_issued_a_request_carries_what_was_merged_into_it(tmp_path: Path) -> None:
    # GIVEN a back merge (1), a front merge (2), a merge through a merged request (3), and requests
    # that are issued in another order than they were queued
    rows: list[dict[str, Any]] = [
        {"queue_ns": 10, "issue_ns": 900, "sector": 100},
        {"queue_ns": 20, "issue_ns": 900, "sector": 108, "merged_into": 0},
        {"queue_ns": 30, "issue_ns": 900, "sector": 92, "merged_into": 0},
        {"queue_ns": 40, "issue_ns": 900, "sector": 116, "merged_into": 1},
        {"queue_ns": 50, "issue_ns": 60, "sector": 8, "operation": "read"},
        {"queue_ns": 70, "issue_ns": None, "sector": 8},
        {"queue_ns": 80, "issue_ns": 80, "sector": 8, "merged_into": 5},
    ]
    records, report = compiled(tmp_path, rows, level="issued")
    # THEN the read is first, and the write covers all four
    assert records == [
        (0, 8, 4, 8, block_plan.READ, 0, 0),
        (840, 92, 0, 32, block_plan.WRITE, 0, 0),
    ]
    assert report.skipped == {"unissued": 1, "merged_into_unknown": 1}


@pytest.mark.parametrize("level", ["queued", "issued"])
def test_batches_make_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    # GIVEN requests with merges to carriers before and after them, and wild issue times
    random = np.random.default_rng(5)
    count = 500
    queue = np.sort(random.integers(0, 100_000, count))
    rows: list[dict[str, Any]] = []
    for number in range(count):
        row = {"queue_ns": int(queue[number]), "sector": 8 * number}
        row["issue_ns"] = int(queue[number] + random.integers(0, 5000))
        if number % 5 == 1:
            row["merged_into"] = number - 1
        rows.append(row)
    whole, _ = compiled(tmp_path, rows, level=level)
    (tmp_path / "plan.bin").unlink()
    # WHEN they are read seven at a time
    monkeypatch.setattr("tracekit.replay.source.BATCH_ROWS", 7)
    (tmp_path / "again").mkdir()
    pieces, _ = compiled(tmp_path / "again", rows, level=level)
    # THEN the plan is the same, and in order of time
    assert count < BATCH_ROWS
    assert pieces == whole
    assert [row[0] for row in whole] == sorted(row[0] for row in whole)
    key = "queue_ns" if level == "queued" else "issue_ns"
    carriers = [row for row in rows if level == "queued" or "merged_into" not in row]
    first = min(row[key] for row in carriers)
    assert sorted(row[0] + first for row in whole) == sorted(row[key] for row in carriers)


def test_a_role_with_its_own_target_starts_at_its_beginning(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"queue_ns": 0, "sector": 200_008, "role": "journal"},
        {"queue_ns": 1, "sector": 4096, "role": "fs"},
        {"queue_ns": 2, "sector": 300_000, "role": "swap"},
        {"queue_ns": 3, "sector": 200_000, "role": "journal"},
        {"queue_ns": 4, "operation": "flush", "length_bytes": 0, "role": "journal"},
    ]
    records, report = compiled(tmp_path, rows, own_labels=("journal", "swap"))
    assert [(row[1], row[6]) for row in records] == [(8, 0), (4096, 2), (0, 1), (0, 0), (0, 0)]
    assert report.targets == [
        {"label": "journal", "needed_bytes": 16 * 512},
        {"label": "swap", "needed_bytes": 4096},
        {"label": "default", "needed_bytes": (4096 + 8) * 512},
    ]


def test_several_devices_and_parts_follow_each_other(tmp_path: Path) -> None:
    # GIVEN journal requests outside any partition, and two devices on the default target
    rows: list[dict[str, Any]] = [
        {"queue_ns": 0, "sector": 500_000, "role": "journal", "device": "sdb"},
        {"queue_ns": 1, "sector": 200_000, "role": "journal"},
        {"queue_ns": 2, "sector": 3000, "device": "sda"},
        {"queue_ns": 3, "sector": 7, "device": "sdb", "length_bytes": 512},
    ]
    records, report = compiled(tmp_path, rows, own_labels=("journal",))
    # THEN each area starts at the next MiB of its target
    assert [(row[1], row[6]) for row in records] == [
        (2048 + 500_000 - 499_712, 0),
        (0, 0),
        (3000, 1),
        (4096 + 7, 1),
    ]
    places = {(e["target"], e["device"], e["target_sector"]) for e in report.extents}
    assert places == {(0, "sda", 0), (0, "sdb", 2048), (1, "sda", 0), (1, "sdb", 4096)}


def test_what_cannot_be_replayed_is_counted(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"queue_ns": 0, "operation": "zone"},
        {"queue_ns": 1, "length_bytes": 0},
        {"queue_ns": 2, "sector": -8},
        {"queue_ns": 3, "length_bytes": 1 << 30},
        {"queue_ns": 4, "length_bytes": 700},
        {"queue_ns": 5, "length_bytes": 0, "is_preflush": True},
        {"queue_ns": None, "issue_ns": 6, "complete_ns": 9},
    ]
    records, report = compiled(tmp_path, rows)
    assert report.skipped == {"operation": 1, "empty": 1, "address": 1, "too_long": 1}
    assert report.rounded == 1
    assert report.guessed_times == 1
    assert [(row[0], row[3], row[4]) for row in records] == [
        (0, 2, block_plan.WRITE),
        (1, 0, block_plan.FLUSH),
        (2, 8, block_plan.WRITE),
    ]


def test_the_limit_is_exact(tmp_path: Path) -> None:
    rows = [{"queue_ns": number, "sector": 8 * number} for number in range(100)]
    records, report = compiled(tmp_path, rows, limit=7)
    assert len(records) == report.requests == 7
    assert report.targets[0]["needed_bytes"] == 7 * 4096


def test_a_table_out_of_order_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracekit.replay.source.BATCH_ROWS", 2)
    rows = [{"queue_ns": ns} for ns in (0, 100, 50, 60)]
    with pytest.raises(InputError, match="request 2 stands behind requests of later times"):
        compiled(tmp_path, rows)
    assert not (tmp_path / "plan.bin").exists()


def test_nothing_to_replay_and_unknown_roles_are_errors(tmp_path: Path) -> None:
    folder = trace(tmp_path / "trace", [{"operation": "zone"}])
    with pytest.raises(InputError, match="no request to replay at level 'queued'"):
        compile_plan(folder, tmp_path / "a.bin", options=PlanOptions())
    with pytest.raises(UsageError, match="there is no role 'log'"):
        compile_plan(folder, tmp_path / "a.bin", options=PlanOptions(own_labels=("log",)))
    (tmp_path / "b").mkdir()
    folder = trace(tmp_path / "b" / "trace", [{"role": "fs"}])
    with pytest.raises(UsageError, match="no requests of role 'swap'"):
        compile_plan(folder, tmp_path / "a.bin", options=PlanOptions(own_labels=("swap",)))
    assert list(tmp_path.glob("*.bin")) == []
