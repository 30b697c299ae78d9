"""Targets that really fail: a file system in user space returns errors, comes short and goes."""

from collections import Counter
from pathlib import Path

import pytest

from tests.replay.disk import needs_root
from tests.replay.failing import SIZE_BYTES, failing_file
from tests.replay.program import (
    FLUSH,
    PREFLUSH,
    READ,
    WRITE,
    Ran,
    content,
    expected_content,
    record,
    run,
    write_plan,
)

pytestmark = [needs_root, pytest.mark.root]
ENGINES = ("threads", "io_uring")
BLOCKS = SIZE_BYTES // 4096


def replay(target: Path, plan: Path, engine: str) -> Ran:
    return run(plan, "--target", str(target), "--write-to", str(target), "--engine", engine)


def every_block(operation: int) -> list[tuple[int, ...]]:
    return [record(operation, 8 * n, 8, at_ns=n * 1000) for n in range(BLOCKS)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("operation", [READ, WRITE])
def test_bad_places_fail_and_the_others_are_done(
    tmp_path: Path, engine: str, operation: int
) -> None:
    # GIVEN a file of which blocks 64 to 95 fail
    plan = write_plan(tmp_path / "a.plan", every_block(operation))
    with failing_file(tmp_path / "fs", bad_from=64 * 4096, bad_end=96 * 4096) as target:
        # WHEN each block is asked for once
        ran = replay(target, plan, engine)
    # THEN the requests of these blocks have the error, and no other one
    assert ran.code == 3, ran.messages
    failed = {number for number, status in ran.statuses().items() if status == "failed"}
    assert failed == set(range(64, 96))
    assert [(e["name"], e["count"]) for e in ran.summary["errors"]] == [("EIO", 32)]
    assert ran.summary["outcome"] == "finished"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_full_file_system_is_an_error_of_each_write(tmp_path: Path, engine: str) -> None:
    plan = write_plan(tmp_path / "a.plan", every_block(WRITE))
    with failing_file(tmp_path / "fs", room_bytes=100 * 4096) as target:
        ran = replay(target, plan, engine)
    assert ran.code == 3, ran.messages
    assert Counter(ran.statuses().values()) == {"done": 100, "failed": BLOCKS - 100}
    assert [e["name"] for e in ran.summary["errors"]] == ["ENOSPC"]


def test_short_transfers_are_carried_on_to_the_end(tmp_path: Path) -> None:
    # GIVEN a file that moves at most 1.5 KiB a call
    rows = [record(WRITE, 0, 64), record(WRITE, 128, 3), record(READ, 0, 131)]
    plan = write_plan(tmp_path / "a.plan", rows)
    with failing_file(tmp_path / "fs", short_bytes=1536) as target:
        # WHEN blocks are written and read
        ran = replay(target, plan, "threads")
        # THEN nothing is missing
        assert ran.code == 0, ran.messages
        assert (content(target) == expected_content(rows, SIZE_BYTES)).all()


def test_short_reads_are_submitted_again(tmp_path: Path) -> None:
    # io_uring gets EIO for a short write: Linux makes that of one that is asynchronous on FUSE.
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 64), record(READ, 128, 3)])
    with failing_file(tmp_path / "fs", short_bytes=1536) as target:
        ran = replay(target, plan, "io_uring")
    assert ran.code == 0, ran.messages
    assert ran.summary["engine"]["resubmitted"] >= 64 * 512 // 1536


@pytest.mark.parametrize("engine", ENGINES)
def test_a_flush_that_fails_stops_the_data_behind_it(tmp_path: Path, engine: str) -> None:
    rows = [record(WRITE, 0, 8), record(FLUSH), record(WRITE, 8, 8, flags=PREFLUSH)]
    plan = write_plan(tmp_path / "a.plan", rows)
    with failing_file(tmp_path / "fs", flush_fails=1) as target:
        ran = run(
            plan,
            *("--target", str(target), "--write-to", str(target)),
            *("--engine", engine, "--depth", "1"),
        )
        assert (content(target) == expected_content(rows[:1], SIZE_BYTES)).all()
    assert ran.statuses() == {0: "done", 1: "failed", 2: "failed"}
    assert [(e["name"], e["count"]) for e in ran.summary["errors"]] == [("EIO", 2)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_target_that_disappears_ends_no_run(tmp_path: Path, engine: str) -> None:
    # GIVEN a file system that is no more after so many requests
    plan = write_plan(tmp_path / "a.plan", every_block(READ))
    with failing_file(tmp_path / "fs", gone_after=100) as target:
        # WHEN a plan of more runs on it
        ran = replay(target, plan, engine)
    # THEN what came before is done, what came after has failed, and each has its record
    assert ran.code == 3, ran.messages
    assert ran.summary["outcome"] == "finished"
    counts = ran.summary["counts"]
    assert 0 < counts["done"] <= 100
    assert counts["done"] + counts["failed"] == BLOCKS == len(ran.rows())
    assert {e["name"] for e in ran.summary["errors"]} <= {"ECONNABORTED", "ENOTCONN", "EIO"}
