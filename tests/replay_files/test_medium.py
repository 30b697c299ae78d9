"""What slower memory adds to reads and writes: at least so long, by cache lines, and only there."""

from pathlib import Path

import pytest

from tests.replay_files.program import do, run, write_plan
from tracekit.plans.file_plan import MOST_LINE_NS, FileTable, Medium, Setting

OF_READS, OF_WRITES = 20_000, 50_000


def plan_with(path: Path, medium: Medium | None) -> Path:
    files = FileTable()
    files.add("f", size_bytes=6400)
    calls = [
        do("open", "f", handle=0),
        do("read", "f", handle=0, length=6400),  # 100 lines
        do("read", "f", handle=0, length=65, operation_id=1),  # two, one of them begun
        do("read", "f", handle=0, offset=6400, length=64, operation_id=2),  # nothing is there
        do("write", "f", handle=0, length=640, operation_id=3),  # ten
        do("fsync", "f", handle=0, operation_id=4),
        do("close", "f", handle=0, operation_id=5),
    ]
    return write_plan(path, [calls], files=files, setting=Setting(medium=medium))


def test_each_line_takes_its_time_and_nothing_else_does(tmp_path: Path) -> None:
    # GIVEN a plan for a medium of 20 us a line read and 50 us a line written
    plan = plan_with(tmp_path / "plan", Medium(OF_READS, OF_WRITES))
    (tmp_path / "in").mkdir()
    ran = run(plan, tmp_path / "in")
    assert ran.code == 0
    # WHEN it has run, each read and write took at least its lines
    reads, writes = ran.of("read")["latency"], ran.of("write")["latency"]
    assert reads["max_ns"] >= 100 * OF_READS
    assert reads["p50_ns"] >= 2 * OF_READS
    assert reads["min_ns"] < 2 * OF_READS  # the empty one waits for nothing
    assert writes["min_ns"] >= 10 * OF_WRITES
    # AND not much longer, on a machine that may be busy
    assert reads["max_ns"] < 100 * OF_READS * 20
    assert ran.of("close")["latency"]["min_ns"] < 10 * OF_WRITES


def test_without_a_medium_nothing_is_added(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    ran = run(plan_with(tmp_path / "plan", None), tmp_path / "in")
    assert ran.of("read")["latency"]["min_ns"] < 2 * OF_READS


@pytest.mark.parametrize(
    "medium", [Medium(MOST_LINE_NS + 1, 0), Medium(0, MOST_LINE_NS + 1), Medium(1, (1 << 32) - 1)]
)
def test_a_medium_of_more_than_a_millisecond_a_line_is_refused(
    tmp_path: Path, medium: Medium
) -> None:
    (tmp_path / "in").mkdir()
    ran = run(plan_with(tmp_path / "plan", medium), tmp_path / "in")
    assert ran.code != 0
    assert "more than a millisecond to 64 bytes" in ran.messages
