"""What a run writes never replaces its plan, a target, what is no file, or its other output."""

import json
import os
import stat
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.replay.disk import small_file_system
from tests.replay.program import Word, content, expected_content, record, write_plan
from tests.replay_files import program as files
from tracekit._native import program_path
from tracekit.errors import UsageError
from tracekit.plans.block_plan import READ, WRITE
from tracekit.store import beside

PLACES = ("plan", "target", "hard link", "symbolic link", "new target", "each other", "new twin")
PRECIOUS = b"precious" * 512
Ended = subprocess.CompletedProcess[str]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return write_plan(tmp_path / "a.plan", [record(READ, 0, 8)])


@pytest.fixture
def writing(tmp_path: Path) -> Path:
    return write_plan(tmp_path / "a.plan", [record(WRITE, 0, 8)])


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def replay(plan: Path, *words: Word) -> Ended:
    """Run the program in the folder of the plan, without outputs but for those that are named."""
    command = [program_path(), plan, *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=plan.parent, timeout=60
    )


def state_of(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return which file each name is, its size and when it was written."""
    found = {path.name: path.lstat() for path in folder.iterdir()}
    return {name: (one.st_ino, one.st_size, one.st_mtime_ns) for name, one in found.items()}


@pytest.mark.parametrize("output", ["--completions", "--summary"])
@pytest.mark.parametrize("place", PLACES)
def test_an_output_that_is_something_else_is_refused(plan: Path, output: str, place: str) -> None:
    # GIVEN a plan, and a target with content that is only read
    folder, target = plan.parent, plan.with_name("t")
    target.write_bytes(PRECIOUS)
    (folder / "hard").hardlink_to(target)
    (folder / "soft").symlink_to(target)
    (folder / "here").symlink_to(folder)
    other = "--summary" if output == "--completions" else "--completions"
    words: dict[str, list[Word]] = {
        "plan": [output, "./a.plan", "--target", target],
        "target": [output, target, "--target", "t"],
        "hard link": [output, "hard", "--target", target],
        "symbolic link": [output, "soft", "--target", target],
        "new target": [output, "here/new", "--target", "new"],
        "each other": [output, "t", other, target, "--target", "elsewhere"],
        "new twin": [output, "here/same", other, folder / "same", "--target", target],
    }
    before = state_of(folder)
    # WHEN completions or summary would go to one of these
    ran = replay(plan, *words[place])
    # THEN that is one line, and nothing was made or replaced
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert " cannot go to " in ran.stderr, ran.stderr
    assert state_of(folder) == before
    assert target.read_bytes() == PRECIOUS


@pytest.mark.parametrize("output", ["--results", "--summary"])
def test_a_file_plan_is_not_replaced(tmp_path: Path, output: str) -> None:
    plan = files.write_plan(tmp_path / "plan", [[files.do("sync")]])
    data = plan.read_bytes()
    ran = replay(plan, tmp_path, output, plan)
    assert ran.returncode == 1
    assert "that is the plan" in ran.stderr
    assert plan.read_bytes() == data


@pytest.mark.parametrize("output", ["--completions", "--summary"])
def test_an_output_in_no_folder_is_found_out_before_the_run(writing: Path, output: str) -> None:
    ran = replay(writing, "--target", "t", output, "no/such", "--keep")
    assert ran.returncode == 1
    assert "to no/such: No such file or directory" in ran.stderr
    assert not writing.with_name("t").exists()


def test_both_outputs_may_go_where_nothing_is_kept(plan: Path) -> None:
    ran = replay(plan, "--engine", "null", "--summary", "/dev/null")
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.root
def test_a_summary_that_has_no_room_is_not_lost(tmp_path: Path, writing: Path) -> None:
    # GIVEN a full file system for the summary, and an old one there
    with small_file_system(tmp_path / "full") as full:
        (full / "s.json").write_text("old")
        with (full / "filling").open("wb", buffering=0) as filling, suppress(OSError):
            while True:
                filling.write(bytes(4096))
        # WHEN a run ends
        ran = replay(writing, "--target", "t", "--keep", "--summary", full / "s.json")
        # THEN the summary is on stdout, the old one is there still, and the data is written
        assert ran.returncode == 1
        assert "No space left on device; it is on stdout instead" in ran.stderr
        assert json.loads(ran.stdout)["counts"]["done"] == 1
        assert sorted(os.listdir(full)) == ["filling", "s.json"]
        assert (full / "s.json").read_text() == "old"
    assert (content(tmp_path / "t") == expected_content([record(WRITE, 0, 8)], 4096)).all()


def read_while(pipe: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True)


def test_a_summary_goes_through_a_pipe(plan: Path, pipe: Path) -> None:
    with read_while(pipe) as reader:
        ended = replay(plan, "--engine", "null", "--summary", pipe)
        text, _ = reader.communicate(timeout=20)
    assert ended.returncode == 0
    assert json.loads(text)["outcome"] == "finished"
    assert pipe.is_fifo()


def test_completions_are_a_file_or_nothing(plan: Path, pipe: Path) -> None:
    ended = replay(plan, "--engine", "null", "--completions", pipe)
    assert ended.returncode == 1
    assert f"cannot write completions to {pipe}" in ended.stderr
    assert pipe.is_fifo()
    assert sorted(path.name for path in plan.parent.iterdir()) == ["a.plan", "pipe"]


def test_what_is_written_whole_goes_through_a_pipe(pipe: Path) -> None:
    with read_while(pipe) as reader:
        with beside(pipe) as part:
            part.write_text("whole")
        text, _ = reader.communicate(timeout=20)
    assert text == "whole"
    assert pipe.is_fifo()
    assert [path.name for path in pipe.parent.iterdir()] == ["pipe"]


def test_nothing_reaches_the_pipe_when_it_fails(pipe: Path) -> None:
    with suppress(ZeroDivisionError), beside(pipe) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert pipe.is_fifo()


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
