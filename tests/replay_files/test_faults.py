"""Full disks and signals: what was done is told and readable."""

import errno
import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.replay.disk import needs_root, small_file_system
from tests.replay_files.program import RESULT, command, do, run, write_plan
from tracekit.plans.file_plan import FileTable, Setting

OWN = "tracekit-files"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_file_system(tmp_path / "small") as place:
        yield place


@needs_root
def test_a_disk_that_fills_up_ends_the_run(tmp_path: Path, small_disk: Path) -> None:
    # GIVEN a plan that says it needs little, and writes 16 MiB
    writes = [
        do("write", "big", handle=0, offset=place << 20, length=1 << 20) for place in range(16)
    ]
    plan = write_plan(
        tmp_path / "plan",
        [[do("create", "big", handle=0), *writes, do("fsync", "big", handle=0)]],
        setting=Setting(needed_bytes=0),
    )
    ran = run(plan, small_disk)
    # THEN the first that found no room ended it, and is counted by operation
    assert (ran.code, ran.summary["outcome"], ran.summary["ended_by"]) == (3, "full", "full")
    (error,) = ran.summary["errors"]
    assert (error["operation"], error["name"], error["count"]) == ("write", "ENOSPC", 1)
    results = ran.rows()["result"].tolist()
    assert results[-1] == -errno.ENOSPC
    assert sum(results[:-1]) <= 4 << 20
    # AND the directory is empty again
    assert list(small_disk.iterdir()) == []


@needs_root
def test_a_file_set_that_does_not_fit_is_refused_or_removed(
    tmp_path: Path, small_disk: Path
) -> None:
    files = FileTable()
    for number in range(8):
        files.add(f"f{number}", size_bytes=1 << 20)
    plan = write_plan(tmp_path / "plan", [[do("stat", "f0")]], files=files)
    assert "MiB are free" in run(plan, small_disk).messages
    ran = run(plan, small_disk, "--no-space-check")
    assert (ran.code, ran.summary) == (1, {})
    assert "cannot make the file" in ran.messages
    assert list(small_disk.iterdir()) == []


def endless(tmp_path: Path) -> Path:
    thread = [do("create", "new", handle=0), do("close", "new", handle=0), do("unlink", "new")]
    return write_plan(tmp_path / "plan", [thread], setting=Setting(is_repeatable=True))


def start(tmp_path: Path) -> subprocess.Popen[bytes]:
    arguments = command(
        endless(tmp_path), tmp_path, "--repeat", "0", "--duration-ns", str(60 * 10**9)
    )
    child = subprocess.Popen(arguments)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        sizes = [part.stat().st_size for part in tmp_path.glob("*.part")]
        if sizes and sizes[0] > 64 + 4096 * RESULT.itemsize:
            return child
        time.sleep(0.01)
    raise AssertionError("the run did not begin")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    child = start(tmp_path)
    child.send_signal(number)
    assert child.wait(10) == 3
    told = json.loads((tmp_path / "plan.json").read_text())
    assert (told["outcome"], told["ended_by"]) == ("interrupted", "signal")
    rows = np.frombuffer((tmp_path / "plan.done").read_bytes()[64:], RESULT)
    assert len(rows) == told["counts"]["operations"]
    assert not (tmp_path / OWN).exists()


def test_a_killed_run_leaves_what_was_written(tmp_path: Path) -> None:
    child = start(tmp_path)
    child.kill()
    child.wait(10)
    (part,) = tmp_path.glob("plan.done.*.part")
    data = part.read_bytes()
    assert int.from_bytes(data[20:24], "little") == 0  # not complete
    rows = np.frombuffer(data[64 : 64 + (len(data) - 64) // 48 * 48], RESULT)
    whole = rows[rows["is_whole"] == 1]
    assert len(whole) >= 4096
    assert np.all(whole["operation_id"] == np.arange(len(whole)) % 3)
    # AND the next run removes its directory, and says so
    ran = run(endless(tmp_path), tmp_path)
    assert (ran.code, ran.summary["directory"]["replaced"]) == (0, "killed run")
    assert f"removed {tmp_path / OWN}, which a killed run had left" in ran.messages
    assert not (tmp_path / OWN).exists()


def test_a_signal_in_the_preparation_leaves_nothing(tmp_path: Path) -> None:
    files = FileTable()
    for number in range(20_000):
        files.add(f"f{number}", size_bytes=1000)
    plan = write_plan(tmp_path / "plan", [[do("stat", "f0")]], files=files)
    with subprocess.Popen(command(plan, tmp_path)) as child:
        while not (tmp_path / OWN / "run/f0").exists():
            time.sleep(0.001)
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == 3
    told = json.loads((tmp_path / "plan.json").read_text())
    assert (told["outcome"], told["ended_by"]) == ("interrupted", "nothing")
    assert told["preparation"]["files"] < 20_000
    assert not (tmp_path / OWN).exists()


def test_results_that_cannot_be_written_end_the_run(tmp_path: Path) -> None:
    # GIVEN a limit of file sizes that the results of an endless run pass
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    ran = run(
        endless(tmp_path),
        tmp_path,
        *("--repeat", "0", "--duration-ns", str(30 * 10**9)),
        preexec_fn=limit,
    )
    assert (ran.code, ran.summary["outcome"], ran.summary["ended_by"]) == (1, "failed", "results")
    assert "cannot write all results" in ran.messages
    assert len(list(tmp_path.glob("plan.done.*.part"))) == 1
    assert not (tmp_path / OWN).exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "locked"
    place.mkdir(mode=0o500)
    assert "Permission denied" in run(endless(tmp_path), place).messages
