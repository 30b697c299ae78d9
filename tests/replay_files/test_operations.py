"""Each operation does on the file system what the plan says."""

import errno
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.replay.program import pattern
from tests.replay_files.program import Operation, command, do, run, write_plan
from tracekit.plans.file_plan import (
    APPEND,
    AT_POSITION,
    DIRECT,
    EXCLUSIVE,
    KEEP_SIZE,
    PUNCH_HOLE,
    READ,
    SYNC,
    TRUNCATE,
    WRITE,
    FileTable,
    Setting,
)

KEPT = "tracekit-files/run"
ENDING = ("exit", "madvise", "rt_sigprocmask")  # what the C library does with a thread


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
]


def content(number: int, offset: int, length: int) -> bytes:
    """Return what file `number` holds at a place, by the formula of INTERFACE.md."""
    return pattern(offset + 4096 * number, length).tobytes()


def table(*paths: str, size_bytes: int = 10_000) -> FileTable:
    files = FileTable()
    for path in paths:
        files.add(path, size_bytes=size_bytes)
    return files


def test_every_operation_of_a_file(tmp_path: Path) -> None:
    # GIVEN one thread that does each thing once
    files = table("d/old")
    plan = write_plan(
        tmp_path / "plan",
        [LIFE],
        files=files,
    )
    # WHEN it is run
    ran = run(plan, tmp_path, "--keep")
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
    # AND the results are those of the calls: two entries in d, and "." and ".."
    assert ran.rows()["result"].tolist() == [
        *(0, 0, 5000, 1100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0)
    ]
    assert ran.of("read")["short"] == 1


def test_what_goes_by_position_and_to_the_end(tmp_path: Path) -> None:
    plan = write_plan(
        tmp_path / "plan",
        [
            [
                do("open", "old", handle=0, flags=APPEND | WRITE),
                do("write", "old", handle=0, offset=AT_POSITION, length=6),
                do("open", "old", handle=1, flags=READ),
                do("read", "old", handle=1, offset=AT_POSITION, length=9_000),
                do("read", "old", handle=1, offset=AT_POSITION, length=9_000),
                do("read", "old", handle=1, offset=AT_POSITION, length=9_000),
                do("create", "old", handle=2, flags=TRUNCATE),
                do("stat", "old", handle=2),
            ]
        ],
        files=table("old"),
    )
    ran = run(plan, tmp_path, "--keep")
    assert ran.rows()["result"].tolist() == [0, 6, 0, 9_000, 1_006, 0, 0, 0]
    assert (tmp_path / KEPT / "old").stat().st_size == 0


def test_files_in_memory(tmp_path: Path) -> None:
    plan = write_plan(
        tmp_path / "plan",
        [
            [
                do("open", "old", handle=0),
                do("mmap", "old", handle=0, offset=4096, length=5000),
                do("msync", "old", handle=0),
                do("munmap", "old", handle=0),
                do("munmap", "old", handle=0, expected_error=errno.EBADF),
                do("mmap", "old", handle=0, offset=0, length=1 << 20, flags=READ),
                do("fallocate", "old", handle=0, length=4096, flags=PUNCH_HOLE),
                do("fallocate", "old", handle=0, offset=65536, length=4096, flags=KEEP_SIZE),
            ]
        ],
        files=table("old"),
    )
    # WHEN the second mapping reaches over the end of the file, where a touch would be a signal
    ran = run(plan, tmp_path, "--keep")
    # THEN that is an error of its operation, and nothing of the rest
    results = ran.rows()["result"].tolist()
    assert results == [0, 5000, 0, 0, -errno.EBADF, -errno.EFAULT, 0, 0]
    assert (ran.code, ran.summary["counts"]["failed"]) == (3, 1)
    assert (tmp_path / KEPT / "old").read_bytes() == bytes(4096) + content(0, 4096, 10_000 - 4096)


def test_an_error_of_the_trace_is_expected(tmp_path: Path) -> None:
    plan = write_plan(
        tmp_path / "plan",
        [
            [
                do("stat", "missing", expected_error=errno.ENOENT, step=0),
                do("stat", "old", expected_error=errno.ENOENT, step=0),
                do("unlink", "missing", step=0),
                do("close", "old", handle=0, step=0),
            ]
        ],
        files=table("old"),
        setting=Setting(steps=("look",)),
    )
    ran = run(plan, tmp_path)
    assert ran.code == 3
    assert ran.rows()["is_expected"].tolist() == [1, 0, 0, 0]
    told = [(error["operation"], error["errno"], error["count"]) for error in ran.summary["errors"]]
    assert told == [("close", errno.EBADF, 1), ("stat", 0, 1), ("unlink", errno.ENOENT, 1)]
    assert (ran.of("stat")["expected_errors"], ran.of("look", key="steps")["failed"]) == (1, 3)


def test_an_open_handle_is_closed_before_it_is_opened_again(tmp_path: Path) -> None:
    # GIVEN a plan that opens one handle a thousand times and never closes it
    plan = write_plan(tmp_path / "plan", [[do("open", "old", handle=0)] * 1000], files=table("old"))
    # WHEN only 64 descriptors are allowed
    ran = run(plan, tmp_path, preexec_fn=lambda: limit_files(64))
    assert (ran.code, ran.of("open")["done"]) == (0, 1000)


def limit_files(count: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def calls_of(plan: Path, directory: Path) -> list[str]:
    """Return the calls of the run's only thread, by strace."""
    log = directory / "strace"
    subprocess.run(
        ["strace", "-f", "-qq", "-o", log, *command(plan, directory, "--prepare-threads", "1")],
        check=True,
        capture_output=True,
        timeout=60,
    )
    lines = [line.split(maxsplit=1) for line in log.read_text().splitlines()]
    last = next(pid for pid, call in reversed(lines) if call.startswith("exit(0)"))
    names = [re.split(r"[( ]", call)[0] for pid, call in lines if pid == last and call[0] != "<"]
    start = max(i for i, name in enumerate(names) if name in ("prctl", "clock_nanosleep"))
    return [name for name in names[start + 1 :] if name not in ENDING]


@pytest.mark.plain  # beside strace nothing else can trace the program, as the sanitizers do
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_an_operation_is_one_call_and_nothing_else_is_called(tmp_path: Path) -> None:
    # GIVEN the loop of a mail server
    operations: list[Operation] = [
        do("create", "mail", handle=0, flags=EXCLUSIVE | SYNC),
        do("write", "mail", handle=0, length=16384),
        do("fsync", "mail", handle=0),
        do("close", "mail", handle=0),
        do("open", "old", handle=0, flags=READ),
        do("read", "old", handle=0, length=10_000),
        do("close", "old", handle=0),
        do("stat", "old"),
        do("unlink", "mail"),
    ]
    plan = write_plan(tmp_path / "plan", [operations], files=table("old"))
    # THEN the thread makes these calls, and writes its results when it has ended
    assert calls_of(plan, tmp_path) == [
        *("openat2", "pwrite64", "fsync", "close", "openat2", "pread64", "close"),
        *("newfstatat", "unlinkat", "pwrite64"),
    ]


def test_direct_transfers(tmp_path: Path) -> None:
    plan = write_plan(
        tmp_path / "plan",
        [
            [
                do("open", "old", handle=0, flags=DIRECT),
                do("write", "old", handle=0, offset=8192, length=8192),
                do("read", "old", handle=0, offset=0, length=16384),
            ]
        ],
        files=table("old", size_bytes=16384),
    )
    ran = run(plan, tmp_path)
    if any(error["name"] == "EINVAL" for error in ran.summary["errors"]):
        pytest.skip("this file system takes no O_DIRECT")
    assert ran.rows()["result"].tolist() == [0, 8192, 16384]
