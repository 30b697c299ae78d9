"""Results never take the place of what is no file."""

import json
import os
import stat
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.replay.program import READ, record, write_plan
from tracekit._native import program_path
from tracekit.errors import UsageError
from tracekit.store import beside


def replay(plan: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [program_path(), plan, "--engine", "null", "--no-calibration", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return write_plan(tmp_path / "a.plan", [record(READ, 0, 8)])


def read_while(pipe: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)


def test_a_summary_goes_through_a_pipe(plan: Path, pipe: Path) -> None:
    with read_while(pipe) as reader:
        ended = replay(plan, "--summary", pipe)
        text, _ = reader.communicate(timeout=20)
    assert ended.returncode == 0
    assert json.loads(text)["outcome"] == "finished"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_completions_are_a_file_or_nothing(plan: Path, pipe: Path) -> None:
    ended = replay(plan, "--completions", pipe)
    assert ended.returncode == 1
    assert f"cannot write completions to {pipe}" in ended.stderr
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(path.name for path in plan.parent.iterdir()) == ["a.plan", "pipe"]


def test_what_is_written_whole_goes_through_a_pipe(pipe: Path) -> None:
    with read_while(pipe) as reader:
        with beside(pipe) as part:
            part.write_text("whole")
        text, _ = reader.communicate(timeout=20)
    assert text == "whole"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [path.name for path in pipe.parent.iterdir()] == ["pipe"]


def test_nothing_reaches_the_pipe_when_it_fails(pipe: Path) -> None:
    with suppress(ZeroDivisionError), beside(pipe) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_that_takes_all_stays_a_device() -> None:
    if not Path("/dev/null").is_char_device():
        pytest.skip("this machine has no /dev/null")
    with beside(Path("/dev/null")) as part:
        part.write_text("gone")
    assert Path("/dev/null").is_char_device()


def test_a_disk_is_refused(tmp_path: Path) -> None:
    node = tmp_path / "disk"
    try:
        # No device has this number, so not even a mistake could write anywhere.
        os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(240, 77))
    except PermissionError:
        pytest.skip("only root can make a device node")
    with pytest.raises(UsageError, match="is a disk"), beside(node):
        pass
