"""Each operation does on the file system what the plan says."""

import errno
import os
import re
import resource
import shutil
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.replay.processes import limited
from tests.replay.program import pattern
from tests.replay_files.program import KEPT, Operation, Replay, command, do, table, write_plan
from tracekit.plans import file_plan
from tracekit.plans.file_plan import AT_POSITION, EXCLUSIVE, MOST_LINE_NS, READ, Medium, Setting

ENDING = ("exit", "madvise", "rt_sigprocmask")  # what the C library does with a thread
OF_READS, OF_WRITES = 20_000, 50_000
LIFE: list[Operation] = [
    do("mkdir", "new"),
    do("create", "new/a", handle=0, flags=EXCLUSIVE),
    do("write", "new/a", handle=0, offset=100, length=5000),
    do("read", "new/a", handle=0, offset=4000, length=5000),
    do("fsync", "new/a", handle=0),
    do("fdatasync", "new/a", handle=0),
    do("sync_file_range", "new/a", handle=0, offset=0, length=4096),
    do("fallocate", "new/a", handle=0, offset=8192, length=4096),
    do("stat", "new/a", handle=0),
    do("close", "new/a", handle=0),
    do("stat", "new/a"),
    do("rename", "new/a", other="new/b"),
    do("link", "new/b", other="d/c"),
    do("truncate", "d/old", length=1234),
    do("readdir", "d"),
    do("mkdir", "gone"),
    do("rmdir", "gone"),
    do("link", "new/b", other="x"),
    do("unlink", "x"),
    do("sync"),
    *[do(name, "d/old") for name in ("chmod", "chown", "utimens")],
    do("chmod", "d"),
    do("open", "d/old", handle=1),
    *[do(name, "d/old", handle=1) for name in ("chmod", "chown", "utimens")],
]


def content(number: int, offset: int, length: int) -> bytes:
    """Return what file `number` holds at a place, by the formula of INTERFACE.md."""
    return pattern(offset + 4096 * number, length).tobytes()


def test_every_operation_of_a_file(replay: Replay, tmp_path: Path) -> None:
    # WHEN one thread does each thing once
    files = table("d/old", size_bytes=10_000)
    ran = replay([LIFE], files=files, keep=True)
    # THEN all of it has happened
    assert (ran.code, ran.summary["outcome"], ran.messages) == (0, "finished", "")
    place = tmp_path / KEPT
    number = files.number("new/a")
    assert number is not None
    written = (place / "new/b").read_bytes()
    assert written == bytes(100) + content(number, 100, 5000) + bytes(12288 - 5100)
    assert (place / "d/c").stat().st_ino == (place / "new/b").stat().st_ino
    assert (place / "d/old").read_bytes() == content(1, 0, 1234)
    assert not (place / "gone").exists()
    assert not (place / "x").exists()
    # AND what could be opened still can
    modes = [stat.S_IMODE((place / name).stat().st_mode) for name in ("d/old", "d")]
    assert modes == [0o644, 0o755]
    # AND the results are those of the calls: two entries in d, and "." and ".."
    results = [0, 0, 5000, 1100, *[0] * 10, 4, *[0] * 13]
    assert ran.rows()["result"].tolist() == results
    assert ran.of("read")["short"] == 1


def test_metadata_of_what_a_link_leads_to_stay(replay: Replay, tmp_path: Path) -> None:
    # GIVEN a name that is a link out of the directory when the plan comes to it
    precious = tmp_path / "precious"
    precious.write_text("")
    precious.chmod(0o600)
    os.utime(precious, (1, 1))

    def put_link() -> None:
        while not (tmp_path / KEPT / "begun").exists():
            time.sleep(0.01)
        (tmp_path / KEPT / "away").symlink_to(precious)

    late = [do(name, "away", start_ns=10**9) for name in ("chmod", "chown", "utimens")]
    other = threading.Thread(target=put_link)
    other.start()
    # WHEN it is replayed
    ran = replay([[do("create", "begun", handle=0), *late]], pace="trace", keep=True)
    other.join()
    # THEN what it leads to is as it was
    assert ran.rows()["result"].tolist() == [0, -errno.ELOOP, 0, 0]
    status = precious.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_mtime) == (0o600, 1)


def test_what_goes_by_position_and_to_the_end(replay: Replay, tmp_path: Path) -> None:
    thread = [
        do("open", "old", handle=0, flags=file_plan.APPEND | file_plan.WRITE),
        do("write", "old", handle=0, offset=AT_POSITION, length=6),
        do("open", "old", handle=1, flags=READ),
        *[do("read", "old", handle=1, offset=AT_POSITION, length=9_000)] * 3,
        do("create", "old", handle=2, flags=file_plan.TRUNCATE),
        do("stat", "old", handle=2),
    ]
    ran = replay([thread], files=table("old", size_bytes=10_000), keep=True)
    assert ran.rows()["result"].tolist() == [0, 6, 0, 9_000, 1_006, 0, 0, 0]
    assert (tmp_path / KEPT / "old").stat().st_size == 0


def test_files_in_memory(replay: Replay, tmp_path: Path) -> None:
    keep, hole = file_plan.KEEP_SIZE, file_plan.PUNCH_HOLE
    thread = [
        do("open", "old", handle=0),
        do("mmap", "old", handle=0, offset=4096, length=5000),
        do("msync", "old", handle=0),
        do("munmap", "old", handle=0),
        do("munmap", "old", handle=0, expected_error=errno.EBADF),
        do("mmap", "old", handle=0, offset=0, length=1 << 20, flags=READ),
        do("fallocate", "old", handle=0, length=4096, flags=hole),
        do("fallocate", "old", handle=0, offset=65536, length=4096, flags=keep),
    ]
    # WHEN the second mapping reaches over the end of the file, where a touch would be a signal
    ran = replay([thread], files=table("old", size_bytes=10_000), keep=True)
    # THEN that is an error of its operation, and nothing of the rest
    results = ran.rows()["result"].tolist()
    assert results == [0, 5000, 0, 0, -errno.EBADF, -errno.EFAULT, 0, 0]
    assert (ran.code, ran.counts["failed"]) == (3, 1)
    assert (tmp_path / KEPT / "old").read_bytes() == bytes(4096) + content(0, 4096, 10_000 - 4096)


def test_an_error_of_the_trace_is_expected(replay: Replay) -> None:
    thread = [
        do("stat", "missing", expected_error=errno.ENOENT, step=0),
        do("stat", "old", expected_error=errno.ENOENT, step=0),
        do("unlink", "missing", step=0),
        do("close", "old", handle=0, step=0),
    ]
    ran = replay([thread], files=table("old"), setting=Setting(steps=("look",)))
    assert ran.code == 3
    assert ran.rows()["is_expected"].tolist() == [1, 0, 0, 0]
    told = [(error["operation"], error["errno"], error["count"]) for error in ran.summary["errors"]]
    assert told == [("close", errno.EBADF, 1), ("stat", 0, 1), ("unlink", errno.ENOENT, 1)]
    assert (ran.of("stat")["expected_errors"], ran.of("look", key="steps")["failed"]) == (1, 3)


def test_an_open_handle_is_closed_before_it_is_opened_again(replay: Replay) -> None:
    # GIVEN a plan that opens one handle a thousand times and never closes it
    thread = [do("open", "old", handle=0)] * 1000
    # WHEN only 64 descriptors are allowed
    limit = limited(resource.RLIMIT_NOFILE, 64)
    ran = replay([thread], files=table("old"), preexec_fn=limit)
    assert (ran.code, ran.of("open")["done"]) == (0, 1000)


def calls_of(plan: Path, directory: Path) -> list[str]:
    """Return the calls of the run's only thread, by strace."""
    log = directory / "strace"
    # In a log of its own no call of a thread is cut in two by one of another thread.
    run = command(plan, directory, prepare_threads=1)
    traced = ["strace", "-ff", "-qq", "-o", str(log), *run]
    subprocess.run(traced, check=True, capture_output=True, timeout=600)
    logs = [path.read_text().splitlines() for path in directory.glob("strace.*")]
    (lines,) = [lines for lines in logs if any(line.startswith("exit(0)") for line in lines)]
    calls = [re.split(r"[(, ]", line)[:2] for line in lines]
    start = max(i for i, (name, _) in enumerate(calls) if name in ("prctl", "clock_nanosleep"))
    *calls, end = (call for call in calls[start + 1 :] if call[0] not in ENDING)
    # On a slow machine results are written in the middle, too: to the same descriptor as at last.
    return [*(name for name, first in calls if [name, first] != end), end[0]]


@pytest.mark.plain  # beside strace nothing else can trace the program, as the sanitizers do
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_an_operation_is_one_call_and_nothing_else_is_called(tmp_path: Path) -> None:
    # GIVEN the loop of a mail server
    operations: list[Operation] = [
        do("create", "mail", handle=0, flags=EXCLUSIVE | file_plan.SYNC),
        do("write", "mail", handle=0, length=16384),
        do("fsync", "mail", handle=0),
        do("close", "mail", handle=0),
        do("open", "old", handle=0, flags=READ),
        do("read", "old", handle=0, length=10_000),
        do("close", "old", handle=0),
        do("stat", "old"),
        do("unlink", "mail"),
    ]
    plan = write_plan(tmp_path / "plan", [operations], files=table("old", size_bytes=10_000))
    # THEN the thread makes these calls, and writes its results when it has ended
    calls = "openat2 pwrite64 fsync close openat2 pread64 close newfstatat unlinkat pwrite64"
    assert calls_of(plan, tmp_path) == calls.split()


def test_direct_transfers(replay: Replay) -> None:
    thread = [
        do("open", "old", handle=0, flags=file_plan.DIRECT),
        do("write", "old", handle=0, offset=8192, length=8192),
        do("read", "old", handle=0, offset=0, length=16384),
    ]
    ran = replay([thread], files=table("old", size_bytes=16384))
    if "EINVAL" in ran.errors:
        pytest.skip("this file system takes no O_DIRECT")
    assert ran.rows()["result"].tolist() == [0, 8192, 16384]


MEDIUM_CALLS: list[Operation] = [
    do("open", "f", handle=0),
    do("read", "f", handle=0, length=6400),  # 100 lines
    do("read", "f", handle=0, length=65, operation_id=1),  # two, one of them begun
    do("read", "f", handle=0, offset=6400, length=64, operation_id=2),  # nothing is there
    do("write", "f", handle=0, length=640, operation_id=3),  # ten
    do("fsync", "f", handle=0, operation_id=4),
    do("close", "f", handle=0, operation_id=5),
]


def test_each_line_of_a_slower_medium_takes_its_time_and_nothing_else_does(replay: Replay) -> None:
    # WHEN a plan for a medium of 20 us a line read and 50 us a line written has run
    setting = Setting(
        medium=Medium(
            "slow",
            OF_READS,
            OF_WRITES,
            read_line_ps=1000 * OF_READS,
            write_line_ps=1000 * OF_WRITES,
        )
    )
    ran = replay([MEDIUM_CALLS], files=table("f", size_bytes=6400), setting=setting)
    assert ran.code == 0
    # THEN each read and write took at least its lines
    reads, writes = ran.of("read")["latency"], ran.of("write")["latency"]
    assert reads["max_ns"] >= 100 * OF_READS
    assert reads["p50_ns"] >= 2 * OF_READS
    assert reads["min_ns"] < 2 * OF_READS  # the empty one waits for nothing
    assert writes["min_ns"] >= 10 * OF_WRITES
    # AND not much longer, on a machine that may be busy
    assert reads["max_ns"] < 100 * OF_READS * 20
    assert ran.of("close")["latency"]["min_ns"] < 10 * OF_WRITES
    # AND without a medium nothing is added
    ran = replay([MEDIUM_CALLS], files=table("f", size_bytes=6400))
    assert ran.of("read")["latency"]["min_ns"] < 2 * OF_READS


def test_threads_share_the_bandwidth_of_a_slower_medium(replay: Replay) -> None:
    # GIVEN memory of which a line takes a millisecond, no matter who moves it
    medium = Medium("shared", 0, 0, read_device_ps=10**9, write_device_ps=10**9)

    def thread(path: str, handle: int, way: str) -> list[Operation]:
        moves = [do(way, path, handle=handle, offset=4096 * n, length=64) for n in range(10)]
        return [do("open", path, handle=handle), *moves, do("close", path, handle=handle)]

    # THEN reads of one thread and writes of another take no less than all of them in turn
    files = table("f", "g", size_bytes=40960)
    every = [thread("f", 0, "read"), thread("g", 1, "write")]
    ran = replay(every, files=files, setting=Setting(medium=medium))
    assert ran.code == 0
    assert ran.summary["timing"]["elapsed_ns"] >= 20 * 10**6


@pytest.mark.parametrize(
    ("medium", "words"),
    [
        (Medium("m", MOST_LINE_NS + 1, 0), "more than a millisecond for a line"),
        (Medium("m", 0, MOST_LINE_NS + 1), "more than a millisecond for a line"),
        (Medium("m", 1, 1, write_line_ps=(1 << 32) - 1), "more than a millisecond for a line"),
        (Medium("m", 1, 1, read_device_ps=2 * 10**9), "more than a millisecond for a line"),
        (Medium("m", 1, 1, line_bytes=32), "not of 64 to 65536 bytes"),
    ],
)
def test_a_memory_that_cannot_be_is_refused(replay: Replay, medium: Medium, words: str) -> None:
    ran = replay([MEDIUM_CALLS], files=table("f"), setting=Setting(medium=medium))
    ran.refused(words)
