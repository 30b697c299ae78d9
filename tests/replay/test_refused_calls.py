"""A call that is refused for ever ends with a count: no engine makes it without end."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.replay.program import Ran, Record, command, play, record, write_plan
from tests.replay_files import program as of_files
from tests.replay_files.program import do, table
from tracekit.plans.block_plan import DISCARD, FLUSH, FUA, READ, WRITE, WRITE_ZEROES

pytestmark = [
    pytest.mark.plain,  # beside strace nothing else can trace the program, as the sanitizers do
    pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace"),
]
ENDS_S = 30
CALLS = "pread64,pwrite64,pwritev2,fdatasync,fallocate"
"""All that an engine of blocking calls makes for requests."""
errors = pytest.mark.parametrize("error", ["EAGAIN", "EINTR"])


def refusing(
    line: list[str], folder: Path, calls: str, error: str, *words: str | Path
) -> list[str]:
    """Return a command line in which these calls fail."""
    inject = f"inject={calls}:error={error}"
    log = folder / "strace"
    return ["strace", "-f", "-qq", "-o", str(log), *map(str, words), "-e", inject, *line]


def refused_on(
    folder: Path, rows: list[Record], target: Path, error: str, **options: Any
) -> tuple[Ran, int]:
    """Run where each call on the target fails; return the run, and how many calls there were."""
    plan = write_plan(folder / "a.plan", rows)
    line = command(plan, target=target, pace="fast", **options)
    words = ("-e", f"trace={CALLS}", "-P", target)
    ran = play(plan, refusing(line, folder, CALLS, error, *words), timeout=ENDS_S)
    return ran, (folder / "strace").read_text().count("(INJECTED)")


@errors
def test_blocking_calls_on_a_target_have_a_limit(tmp_path: Path, target: Path, error: str) -> None:
    # GIVEN one request of each kind, and a target that refuses every call
    rows = [record(kind, 8 * n, 8) for n, kind in enumerate((READ, WRITE, DISCARD, WRITE_ZEROES))]
    rows += [record(WRITE, 64, 8, flags=FUA), record(FLUSH)]
    ran, calls = refused_on(tmp_path, rows, target, error, engine="threads", threads=2)
    # THEN each has failed with that error, at once or after 1,000 more tries
    assert ran.code == 3, ran.messages
    assert ran.errors == {error: len(rows)}
    assert calls == len(rows) * (1 if error == "EAGAIN" else 1001)


@errors
def test_what_is_no_load_or_store_of_a_mapping_has_a_limit(
    tmp_path: Path, target: Path, error: str
) -> None:
    rows = [record(WRITE, 0, 8), record(FLUSH), record(DISCARD, 8, 8)]
    ran, calls = refused_on(tmp_path, rows, target, error, engine="dax")
    assert (ran.code, ran.counts["done"]) == (3, 1)
    assert ran.errors == {error: 2}
    assert calls == 2 * (1 if error == "EAGAIN" else 1001)


@pytest.mark.parametrize("error", ["EAGAIN", "EBUSY"])
def test_a_ring_that_takes_nothing_ends_the_run(tmp_path: Path, target: Path, error: str) -> None:
    # GIVEN a kernel that refuses every submission but the first ones, of which one tries the ring
    plan = write_plan(tmp_path / "a.plan", [record(READ, 8 * n, 8) for n in range(9)])
    line = command(plan, target=target, engine="io_uring", pace="fast", depth=1)
    words = ("-e", "trace=io_uring_enter")
    traced = refusing(line, tmp_path, "io_uring_enter", f"{error}:when=4+", *words)
    ran = play(plan, traced, timeout=ENDS_S)
    # THEN the run has failed after a second, with the tries counted and no request lost
    assert (ran.code, ran.summary["outcome"]) == (1, "failed"), ran.messages
    assert ran.summary["engine"]["used"] == "io_uring"
    assert ran.summary["engine"]["retried"] > 10
    assert ran.counts["unknown"] == 1
    assert ran.counts["done"] + 1 == len(ran.rows()) < 9


@errors
def test_an_operation_on_files_is_one_call_whatever_it_returns(tmp_path: Path, error: str) -> None:
    # GIVEN operations whose calls are all refused
    operations = [
        do("create", "new", handle=0),
        do("truncate", "new", length=3),
        do("rename", "old", other="other"),
        do("link", "old", other="new"),
        do("sync"),
    ]
    plan = of_files.write_plan(tmp_path / "plan", [operations])
    line = of_files.command(plan, tmp_path)
    traced = refusing(line, tmp_path, "openat2,renameat,linkat,syncfs", error)
    ran = of_files.Ran(**vars(play(plan, traced, timeout=ENDS_S)))
    # THEN each has failed, and was called once
    assert ran.code == 3, ran.messages
    assert ran.errors == {error: 1}
    assert sum(one["count"] for one in ran.summary["errors"]) == len(operations)
    assert (tmp_path / "strace").read_text().count("(INJECTED)") == len(operations)


@pytest.mark.parametrize(("error", "says"), [("EAGAIN", "unavailable"), ("EINTR", "Interrupted")])
def test_a_file_that_cannot_be_made_ends_the_preparation(
    tmp_path: Path, error: str, says: str
) -> None:
    files = table("d/old")
    plan = of_files.write_plan(tmp_path / "plan", [[do("stat", "d/old")]], files=files)
    line = of_files.command(plan, tmp_path, prepare_threads=1)
    old = tmp_path / of_files.KEPT / "d/old"
    traced = refusing(line, tmp_path, "pwrite64", error, "-e", "trace=pwrite64", "-P", old)
    ran = play(plan, traced, timeout=ENDS_S)
    ran.refused("cannot make the file d/old", says)
    assert not (tmp_path / of_files.OWN).exists()
