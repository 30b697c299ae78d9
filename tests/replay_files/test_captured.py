"""Captured file operations become a plan, and the plan does again what was captured."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.capture.file_captures import NEEDS_STRACE, SOURCES, capture
from tests.command_line import invoke, refused, succeed
from tests.replay.disk import call, image, mounted
from tests.replay_files.captured import Row, read_plan, trace
from tracekit.errors import InputError, PartialError
from tracekit.plans.file_plan import APPEND, AT_POSITION, EXCLUSIVE, SYNC, UNTIMED
from tracekit.replay.captured import Uses, compile_files, lanes, waits
from tracekit.replay.run import FileReplayOptions, replay_files
from tracekit.replay.words import describe_files
from tracekit.store import TraceFolder

PYTHON = os.path.realpath(sys.executable)


FILES: list[Row] = [
    {"path": "/d", "kind": "directory"},
    {"path": "/d/old", "size_bytes": 700},
    {"path": "/d/new", "evidence": "absent"},
    {"path": "/d/none", "evidence": "absent"},
    {"path": "/dev/null", "kind": "other"},
]
OPERATIONS: list[Row] = [
    {"operation": "open", "file_id": 1, "handle": 9, "is_append": True, "is_sync": True},
    {"operation": "write", "file_id": 1, "handle": 9, "offset_bytes": None, "done_bytes": 5},
    {"operation": "create", "file_id": 2, "handle": 10, "is_exclusive": True, "ns": 50},
    {"operation": "write", "file_id": 2, "handle": 10, "offset_bytes": 30, "length_bytes": 8},
    {"operation": "open", "file_id": 3, "error": 2},
    {"operation": "open", "file_id": 3, "error": 13},
    {"operation": "mmap", "file_id": 1, "handle": 9},
    {"operation": "stat", "file_id": 4},
    {"operation": "rename", "file_id": 2, "other_file_id": 3},
    {"operation": "truncate", "file_id": 1, "length_bytes": 20, "is_truncate": False},
    {"operation": "chmod", "file_id": 1, "handle": 9},
    {"operation": "utimens", "file_id": 0},
    {"operation": "getxattr", "file_id": 1, "length_bytes": 5},
    {"operation": "removexattr", "file_id": 1, "error": 61},
    {"operation": "close", "file_id": 1, "handle": 9, "end_ns": None},
    {"operation": "read", "file_id": 0, "handle": 77, "length_bytes": 1},
]


def test_records_are_what_was_captured(tmp_path: Path) -> None:
    # GIVEN a file that was there, one that was made, and one that was never found
    folder = trace(tmp_path / "t", FILES, OPERATIONS)
    # WHEN they are compiled
    found = compile_files(folder, tmp_path / "plan")
    (records,) = read_plan(tmp_path / "plan")
    # THEN each is there with its file (by path), its handle, its place and its end
    names = ("operation", "file", "handle", "offset", "length", "expected_error", "flags")
    assert [tuple(record[name] for name in names) for record in records] == [
        ("open", 3, 0, 0, 0, 0, APPEND | SYNC),
        ("write", 3, 0, AT_POSITION, 5, 0, 0),
        ("create", 1, 1, 0, 0, 0, EXCLUSIVE),
        ("write", 1, 1, 30, 8, 0, 0),
        ("open", 2, 3, 0, 0, 2, 0),
        ("rename", 1, None, 0, 0, 0, 0),
        ("truncate", 3, None, 0, 20, 0, 0),
        ("chmod", 3, 0, 0, 0, 0, 0),
        ("utimens", 0, None, 0, 0, 0, 0),
        ("close", 3, 0, 0, 0, 0, UNTIMED),
        ("open", 0, 2, 0, 0, 0, UNTIMED),
        ("read", 0, 2, AT_POSITION, 1, 0, 0),
    ]
    # AND its times: from the first one, and from the end of the one before
    assert [record["start_ns"] for record in records[:5]] == [0, 100, 200, 300, 400]
    assert [record["think_ns"] for record in records[:5]] == [0, 90, 90, 50, 90]
    # AND what is not, is counted
    assert found.skipped == {
        "an error that another machine need not give": 1,
        "extended attributes and symbolic links are not replayed": 2,
        "mapped memory is not seen": 1,
        "no plain file": 1,
    }
    assert (found.present_files, found.present_bytes, found.adopted_handles) == (1, 700, 1)


def test_threads_wait_for_what_others_made(tmp_path: Path) -> None:
    # GIVEN three threads at a time: one makes a folder and a file, two use it, one removes it
    files: list[Row] = [
        {"path": "/d", "kind": "directory", "evidence": "absent"},
        {"path": "/d/f", "evidence": "absent"},
    ]
    operations: list[Row] = [
        *({"operation": "sync", "tid": tid} for tid in (1, 2, 3)),
        {"operation": "mkdir", "file_id": 0, "tid": 1},
        {"operation": "create", "file_id": 1, "handle": 0, "tid": 2},
        {"operation": "stat", "file_id": 1, "tid": 1},
        {"operation": "stat", "file_id": 1, "tid": 3},
        {"operation": "unlink", "file_id": 1, "tid": 2},
        *({"operation": "sync", "tid": tid} for tid in (1, 2, 3)),
    ]
    found = compile_files(trace(tmp_path / "t", files, operations), tmp_path / "plan")
    threads = read_plan(tmp_path / "plan")
    everything = [(one["operation"], one["operation_id"]) for records in threads for one in records]
    waiting = [
        [
            (one["operation"], None if one["after"] is None else everything[one["after"]])
            for one in records
        ]
        for records in threads
    ]
    # THEN each waits for what it needs; the removal waits for both users by a helper
    assert waiting[0][1:3] == [("mkdir", None), ("stat", ("create", 4))]
    assert waiting[1][1:4] == [
        ("create", ("mkdir", 3)),
        ("stat", ("stat", 6)),
        ("unlink", ("stat", 5)),
    ]
    assert waiting[2][1] == ("stat", ("create", 4))
    assert found.waits == 4
    assert found.operations["stat"] == 2


def test_odd_trees_can_be_planned(tmp_path: Path) -> None:
    # GIVEN names below a file, below a folder that was not there, and folders nobody named
    files: list[Row] = [
        {"path": "/a/f", "size_bytes": 1},
        {"path": "/a/f/below", "evidence": "absent"},
        {"path": "/new", "kind": "directory", "evidence": "absent"},
        {"path": "/new/x/y", "evidence": "unknown", "size_bytes": None},
        {"path": "/", "kind": "directory"},
    ]
    operations = [{"operation": "stat", "file_id": number} for number in range(5)]
    found = compile_files(trace(tmp_path / "t", files, operations), tmp_path / "plan")
    assert found.operations == {"stat": 3}
    assert found.skipped == {"no plain file": 2}
    assert found.present_files == 1


def test_nothing_to_replay_is_told(tmp_path: Path) -> None:
    folder = trace(tmp_path / "t", [{"path": "/a"}], [{"operation": "mmap", "file_id": 0}])
    with pytest.raises(InputError, match=r"no file operation to replay .*mapped memory"):
        compile_files(folder, tmp_path / "plan")
    folder = trace(tmp_path / "u", [], [])
    with pytest.raises(InputError, match="none at all"):
        compile_files(folder, tmp_path / "plan")


DATABASE = """
import sqlite3
c = sqlite3.connect("db")
c.execute("create table t(a primary key, b)")
for i in range(40):
    c.execute("insert into t values (?, ?)", (i, "x" * 500))
    c.commit()
c.execute("delete from t where a % 3 = 0")
c.commit()
c.execute("vacuum")
"""
ARCHIVE = "mkdir in; for i in 1 2 3 4; do seq 900 > in/$i; done; tar cf - in | gzip > a.tgz;"
ARCHIVE += " mkdir out; tar xzf a.tgz -C out; mv out/in/1 out/one; rm -r in out"


@NEEDS_STRACE
@pytest.mark.parametrize("target", ["tmpfs", "ext4"])
def test_real_applications_are_done_again(work: Path, target: str) -> None:
    # GIVEN a database and an archiver, with their children, captured
    script = f"{ARCHIVE}; exec {PYTHON} -c '{DATABASE}'"
    place, _ = capture(work, "sh", "-c", script, options=("--below", str(work)))
    folder = TraceFolder(place)
    traced = pq.read_table(place / "file_operations.parquet").to_pylist()
    kept = [row for row in traced if row["operation"] not in ("mmap", "munmap", "msync")]
    with directory(target, work.parent) as there:
        for pace in ("fast", "closed"):
            # WHEN they are replayed
            options = FileReplayOptions(directory=there, name=pace, pace=pace)
            summary, is_partial = replay_files(folder, options)
            # THEN each operation ended as it did, and moved as many bytes
            assert (is_partial, summary["counts"]["failed"]) == (False, 0)
            done = pq.read_table(place / "replays" / pace / "file_completions.parquet").to_pylist()
            expected = moved(kept)
            assert {key: row for key, row in moved(done).items() if row != expected[key]} == {}
            assert len(done) == len(expected)
            assert list(there.glob("tracekit*")) == []


def moved(rows: list[dict[str, Any]]) -> dict[int, tuple[str, int, int | None]]:
    """Return what became of each operation."""
    return {
        row["operation_id"]: (
            row["operation"],
            row["error"],
            row["done_bytes"] if row["operation"] in ("read", "write") else None,
        )
        for row in rows
    }


@contextmanager
def directory(kind: str, folder: Path) -> Iterator[Path]:
    if kind == "tmpfs":
        there = Path("/dev/shm") / f"tracekit-{folder.name}-{os.getpid()}"  # noqa: S108 - a tmpfs
        there.mkdir()
        try:
            yield there
        finally:
            shutil.rmtree(there)
        return
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        pytest.skip("needs root and mkfs.ext4")
    disk = image(folder / "image", mib=256)
    call("mkfs.ext4", "-q", "-F", disk)
    with mounted(disk, folder / "mount", "-o", "loop") as there:
        yield there


def test_the_command(tmp_path: Path, target: Path) -> None:
    # GIVEN a trace in which one operation cannot end as it did
    files: list[Row] = [{"path": "/a", "size_bytes": 3}, {"path": "/b", "evidence": "absent"}]
    operations: list[Row] = [
        {"operation": "stat", "file_id": 0},
        {"operation": "stat", "file_id": 1},
        {"operation": "unlink", "file_id": 0},
    ]
    folder = trace(tmp_path / "t", files, operations).path
    words = ("replay", folder, "--pace", "fast", "--files")
    # WHEN it is replayed, THEN the exit code and the words say so
    result = invoke(*words, target)
    refused(result, "1 operations did not end as in the trace", error=PartialError)
    assert "3 operations in" in result.stdout
    # AND wrong uses are refused
    for more in (("--engine", "null"), ("--limit", "0")):
        refused(invoke(*words, target, *more))
    for more in (("--pace", "slow"), ("--cache", "hot")):
        assert invoke(*words, target, *more).exit_code == 2
    refused(invoke(*words, tmp_path / "nowhere"))
    refused(invoke("replay", folder, "--cache", "cold"))
    # AND the report shows it
    succeed("report", folder)
    assert "replayed_file_calls" in (folder / "report.html").read_text()


LINKS = """
echo hello > real
ln -s real link
cat link > copy
echo more >> link
mv link moved
rm moved
mkdir folder
ln -s folder alias
echo x > alias/file
"""


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_done_through_links_is_replayed_and_links_are_left_out(
    tmp_path: Path, work: Path, target: Path, source: str
) -> None:
    # GIVEN a capture of a command that writes and reads through links, and renames and removes one
    place = tmp_path / "trace"
    tracekit = [sys.executable, "-m", "tracekit"]
    words = ["capture", "--files", "--source", source, "--below", ".", "-o", str(place)]
    subprocess.run(
        [*tracekit, *words, "--", "sh", "-c", LINKS], cwd=work, check=True, capture_output=True
    )
    # WHEN it is replayed
    told = succeed("replay", place, "--files", target).stdout
    # THEN what was done to the link itself is left out and counted, and all the rest went as it did
    assert ", 0 not as in the trace," in told
    assert "no plain file" in told.splitlines()[-1]
    # AND the trace says that the links were made
    info = json.loads((place / "trace.json").read_text())
    assert info["counts"]["operations"]["symlink"] == 2


def test_an_operation_that_never_succeeded_has_no_mean() -> None:
    # GIVEN a summary of a rename that failed
    summary = {
        "counts": {"operations": 1, "failed": 1, "bytes": 0},
        "timing": {"elapsed_ns": 1_000_000_000},
        "compiled": {"skipped": {}},
        "operations": [{"name": "rename", "done": 0, "latency": None}],
        "warnings": [],
    }
    # THEN it is described without a number that nothing gave
    assert describe_files(summary).splitlines()[1] == f"  {'rename':<16}{0:>10}"


@pytest.mark.parametrize("seed", range(30))
def test_what_shares_a_thing_keeps_its_order(seed: int) -> None:
    # GIVEN 60 operations of 4 lanes, one after the other, on 5 things, some of which they change
    chance = np.random.default_rng(seed)
    count = 60
    lane = chance.integers(0, 4, count)
    uses = chance.integers(0, count, 90), chance.integers(0, 5, 90), chance.random(90) < 0.3
    time = np.arange(count, dtype=np.int64)
    # WHEN the waits are worked out
    first, second = waits(Uses(*uses), lane, start_ns=time, end_ns=time)
    # THEN by these and by the order within lanes ...
    behind = np.zeros((count, count), bool)
    behind[first, second] = True
    behind |= (lane[:, None] == lane[None, :]) & (time[:, None] > time[None, :])
    for middle in range(count):
        behind |= behind[:, middle, None] & behind[None, middle, :]
    # ... each pair on one thing, of which one changes it, is in its order
    row, thing, is_change = uses
    for i in range(90):
        for j in range(90):
            if thing[i] == thing[j] and row[i] < row[j] and (is_change[i] or is_change[j]):
                assert behind[row[j], row[i]]
    # AND nothing waits for what is of its own lane or comes later
    assert (lane[first] != lane[second]).all()
    assert (second < first).all()


def test_what_overlapped_does_not_wait() -> None:
    lane = np.array([0, 1])
    change = Uses(np.array([0, 1]), np.array([7, 7]), np.array([True, False]))
    start = np.array([0, 5], np.int64)
    assert len(waits(change, lane, start_ns=start, end_ns=np.array([6, 9], np.int64))[0]) == 0
    assert len(waits(change, lane, start_ns=start, end_ns=np.array([5, 9], np.int64))[0]) == 1


def test_threads_that_follow_each_other_share_a_lane() -> None:
    # GIVEN thread 5 beside 6, then 7 after 6 has ended, and 8 at the same time as both
    tid = np.array([5, 6, 6, 7, 8, 5], np.int64)
    start = np.array([0, 1, 2, 10, 11, 20], np.int64)
    found = lanes(tid, start_ns=start, end_ns=start + 3)
    assert found.tolist() == [0, 1, 1, 1, 2, 0]
