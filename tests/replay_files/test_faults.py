"""Full disks and signals: what was done is told and readable."""

import errno
import json
import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.replay.disk import small_file_system
from tests.replay.processes import await_in, await_true, limited
from tests.replay.program import compiled_shim
from tests.replay_files.program import (
    KEPT,
    OWN,
    RESULT,
    Replay,
    command,
    do,
    run,
    table,
    write_plan,
)
from tracekit.plans.file_plan import Setting

LOOP = [do("create", "new", handle=0), do("close", "new", handle=0), do("unlink", "new")]
MIB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_file_system(tmp_path / "small") as place:
        yield place


@pytest.mark.root
def test_a_disk_that_fills_up_ends_the_run(replay: Replay, small_disk: Path) -> None:
    # GIVEN a plan that says it needs little, and writes 16 MiB
    writes = [do("write", "big", handle=0, offset=n * MIB, length=MIB) for n in range(16)]
    thread = [do("create", "big", handle=0), *writes, do("fsync", "big", handle=0)]
    ran = replay([thread], setting=Setting(needed_bytes=0), directory=small_disk)
    # THEN the first that found no room ended it, and is counted by operation
    assert (ran.code, ran.summary["outcome"], ran.summary["ended_by"]) == (3, "full", "full")
    (error,) = ran.summary["errors"]
    assert (error["operation"], error["name"], error["count"]) == ("write", "ENOSPC", 1)
    results = ran.rows()["result"].tolist()
    assert results[-1] == -errno.ENOSPC
    assert sum(results[:-1]) <= 4 * MIB
    # AND the directory is empty again
    assert list(small_disk.iterdir()) == []


@pytest.mark.root
def test_a_file_set_that_does_not_fit_is_refused_or_removed(
    replay: Replay, small_disk: Path
) -> None:
    thread = [do("stat", "f0")]
    for words, message in (((), "MiB are free"), (("--no-space-check",), "cannot make the file")):
        files = table(*(f"f{number}" for number in range(8)), size_bytes=MIB)
        replay([thread], *words, files=files, directory=small_disk).refused(message)
        assert list(small_disk.iterdir()) == []


@pytest.mark.parametrize("is_there", [True, False])
def test_a_file_longer_than_the_process_may_write_is_refused(
    replay: Replay, *, is_there: bool
) -> None:
    # GIVEN a file of 2 MiB that is there before, or comes by the last of three writes
    thread = [do("create", "f", handle=0)]
    thread += [do("write", "f", handle=0, offset=n * MIB // 2, length=MIB) for n in range(3)]
    files = None
    if is_there:
        thread, files = [do("truncate", "f", length=0)], table("f", size_bytes=2 * MIB)
    # WHEN the process may write files of 1.75 MiB, THEN it says so before
    ran = replay([thread], files=files, preexec_fn=limited(resource.RLIMIT_FSIZE, 7 * MIB // 4))
    ran.refused("2097152 bytes", "ulimit -f")
    # AND a file of just that size is none of the kind
    limit = limited(resource.RLIMIT_FSIZE, 2 * MIB)
    assert replay([thread], files=files, preexec_fn=limit).code == 0


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    return write_plan(tmp_path / "plan", [LOOP], setting=Setting(is_repeatable=True))


@pytest.fixture
def running(tmp_path: Path, endless: Path) -> subprocess.Popen[bytes]:
    """Return a run of a minute that has written more than a block of results."""
    child = subprocess.Popen(command(endless, tmp_path, repeat=0, duration_ns=60 * 10**9))
    least_bytes = 64 + 4096 * RESULT.itemsize
    await_true(lambda: [p for p in tmp_path.glob("*.part") if p.stat().st_size > least_bytes])
    return child


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_in_good_order(
    tmp_path: Path, running: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    running.send_signal(number)
    assert running.wait(10) == 3
    told = json.loads((tmp_path / "plan.json").read_text())
    assert (told["outcome"], told["ended_by"]) == ("interrupted", "signal")
    rows = np.frombuffer((tmp_path / "plan.done").read_bytes()[64:], RESULT)
    assert len(rows) == told["counts"]["operations"]
    assert not (tmp_path / OWN).exists()


def test_a_killed_run_leaves_what_was_written(
    tmp_path: Path, endless: Path, running: subprocess.Popen[bytes]
) -> None:
    running.kill()
    running.wait(10)
    (part,) = tmp_path.glob("plan.done.*.part")
    data = part.read_bytes()
    assert int.from_bytes(data[20:24], "little") == 0  # not complete
    rows = np.frombuffer(data[64 : 64 + (len(data) - 64) // 48 * 48], RESULT)
    whole = rows[rows["is_whole"] == 1]
    assert len(whole) >= 4096
    assert np.all(whole["operation_id"] == np.arange(len(whole)) % 3)
    # AND the next run removes its directory, and says so
    ran = run(endless, tmp_path)
    assert (ran.code, ran.summary["directory"]["replaced"]) == (0, "killed run")
    assert f"removed {tmp_path / OWN}, which a killed run had left" in ran.messages
    assert not (tmp_path / OWN).exists()


def test_a_signal_in_the_preparation_leaves_nothing(tmp_path: Path) -> None:
    files = table(*(f"f{number}" for number in range(20_000)), size_bytes=1000)
    plan = write_plan(tmp_path / "plan", [[do("stat", "f0")]], files=files)
    with subprocess.Popen(command(plan, tmp_path)) as child:
        await_in(child, (tmp_path / OWN / "run/f0").exists, pause_s=0.001)
        child.send_signal(signal.SIGTERM)
        assert child.wait() == 3
    told = json.loads((tmp_path / "plan.json").read_text())
    assert (told["outcome"], told["ended_by"]) == ("interrupted", "nothing")
    assert told["preparation"]["files"] < 20_000
    assert not (tmp_path / OWN).exists()


def test_removal_ends_soon_after_the_signal_and_the_next_run_goes_on(tmp_path: Path) -> None:
    # GIVEN a run on twenty files, each of which takes 0.4 s to remove
    files = table(*(f"old{number}" for number in range(20)))
    plan = write_plan(tmp_path / "plan", [[do("stat", "old0", start_ns=60 * 10**9)]], files=files)
    slow = os.environ | {"LD_PRELOAD": str(compiled_shim(tmp_path)), "SHIM_UNLINK_MS": "400"}
    line = command(plan, tmp_path, pace="trace")
    with subprocess.Popen(line, env=slow, stderr=subprocess.PIPE, text=True) as child:
        await_in(child, (tmp_path / KEPT / "old19").exists)
        # WHEN a signal ends it
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=20)
    # THEN it ends with what could be removed in 3 s, and says so
    assert child.returncode == 3
    assert f"{tmp_path}/{OWN} is removed in part only: the signal came 3 s ago" in said
    assert 0 < len([*(tmp_path / KEPT).iterdir()]) < 20
    # AND the next run removes the rest
    write_plan(plan, [[do("stat", "old0")]], files=files)
    ran = run(plan, tmp_path)
    assert (ran.code, ran.summary["directory"]["replaced"]) == (0, "killed run")
    assert not (tmp_path / OWN).exists()


def test_results_that_cannot_be_written_end_the_run(tmp_path: Path, endless: Path) -> None:
    # GIVEN a limit of file sizes that the results of an endless run pass
    limit = limited(resource.RLIMIT_FSIZE, MIB)
    ran = run(endless, tmp_path, repeat=0, duration_ns=30 * 10**9, preexec_fn=limit)
    assert (ran.code, ran.summary["outcome"], ran.summary["ended_by"]) == (1, "failed", "results")
    assert "cannot write all results" in ran.messages
    assert len(list(tmp_path.glob("plan.done.*.part"))) == 1
    assert not (tmp_path / OWN).exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_may_not_be_written_is_refused(tmp_path: Path, endless: Path) -> None:
    place = tmp_path / "locked"
    place.mkdir(mode=0o500)
    assert "Permission denied" in run(endless, place).messages
