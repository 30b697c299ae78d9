"""Targets that really fail: a file system in user space returns errors, comes short and goes."""

from collections import Counter
from pathlib import Path

import pytest

from tests.replay.failing import SIZE_BYTES, failing_file
from tests.replay.program import Record, Replay, content, expected_content, record
from tracekit.plans.block_plan import FLUSH, PREFLUSH, READ, WRITE

pytestmark = pytest.mark.root
both_engines = pytest.mark.parametrize("engine", ["threads", "io_uring"])
BLOCKS = SIZE_BYTES // 4096


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return where a file system is mounted."""
    return tmp_path / "fs"


def every_block(operation: int) -> list[Record]:
    return [record(operation, 8 * n, 8, at_ns=n * 1000) for n in range(BLOCKS)]


@both_engines
@pytest.mark.parametrize("operation", [READ, WRITE])
def test_bad_places_fail_and_the_others_are_done(
    replay: Replay, place: Path, engine: str, operation: int
) -> None:
    # GIVEN a file of which blocks 64 to 95 fail
    with failing_file(place, bad_from=64 * 4096, bad_end=96 * 4096) as target:
        # WHEN each block is asked for once
        ran = replay(every_block(operation), confirmed=target, engine=engine)
    # THEN the requests of these blocks have the error, and no other one
    assert ran.code == 3, ran.messages
    failed = {number for number, status in ran.statuses().items() if status == "failed"}
    assert failed == set(range(64, 96))
    assert ran.errors == {"EIO": 32}
    assert ran.summary["outcome"] == "finished"


@both_engines
def test_a_full_file_system_is_an_error_of_each_write(
    replay: Replay, place: Path, engine: str
) -> None:
    with failing_file(place, room_bytes=100 * 4096) as target:
        ran = replay(every_block(WRITE), confirmed=target, engine=engine)
    assert ran.code == 3, ran.messages
    assert Counter(ran.statuses().values()) == {"done": 100, "failed": BLOCKS - 100}
    assert list(ran.errors) == ["ENOSPC"]


def test_short_transfers_are_carried_on_to_the_end(replay: Replay, place: Path) -> None:
    # GIVEN a file that moves at most 1.5 KiB a call
    rows = [record(WRITE, 0, 64), record(WRITE, 128, 3), record(READ, 0, 131)]
    with failing_file(place, short_bytes=1536) as target:
        ran = replay(rows, confirmed=target, engine="threads")
        # THEN nothing is missing
        assert ran.code == 0, ran.messages
        assert (content(target) == expected_content(rows, SIZE_BYTES)).all()


def test_short_reads_are_submitted_again(replay: Replay, place: Path) -> None:
    # io_uring gets EIO for a short write: Linux makes that of one that is asynchronous on FUSE.
    with failing_file(place, short_bytes=1536) as target:
        reads = [record(READ, 0, 64), record(READ, 128, 3)]
        ran = replay(reads, confirmed=target, engine="io_uring")
    assert ran.code == 0, ran.messages
    assert ran.summary["engine"]["resubmitted"] >= 64 * 512 // 1536


@both_engines
def test_a_flush_that_fails_stops_the_data_behind_it(
    replay: Replay, place: Path, engine: str
) -> None:
    rows = [record(WRITE, 0, 8), record(FLUSH), record(WRITE, 8, 8, flags=PREFLUSH)]
    with failing_file(place, flush_fails=1) as target:
        ran = replay(rows, confirmed=target, engine=engine, depth=1)
        assert (content(target) == expected_content(rows[:1], SIZE_BYTES)).all()
    assert ran.statuses() == {0: "done", 1: "failed", 2: "failed"}
    assert ran.errors == {"EIO": 2}


@both_engines
def test_a_target_that_disappears_ends_no_run(replay: Replay, place: Path, engine: str) -> None:
    # GIVEN a file system that is no more after so many requests
    with failing_file(place, gone_after=100) as target:
        ran = replay(every_block(READ), confirmed=target, engine=engine)
    # THEN what came before is done, what came after has failed, and each has its record
    assert ran.code == 3, ran.messages
    assert ran.summary["outcome"] == "finished"
    assert 0 < ran.counts["done"] <= 100
    assert ran.counts["done"] + ran.counts["failed"] == BLOCKS == len(ran.rows())
    assert set(ran.errors) <= {"ECONNABORTED", "ENOTCONN", "EIO"}
