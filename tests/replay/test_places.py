"""What a run writes never replaces its plan, a target, or the other thing that it writes."""

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.replay.disk import needs_root, small_file_system
from tests.replay.program import READ, WRITE, content, expected_content, record, write_plan
from tests.replay_files import program as file_program
from tracekit._native import program_path

PLACES = ("plan", "target", "hard link", "symbolic link", "new target", "each other", "new twin")


def replay(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [program_path(), *words, "--pace", "fast"]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def state_of(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return which file each name is, its size and when it was written."""
    found = {path.name: path.lstat() for path in folder.iterdir()}
    return {name: (one.st_ino, one.st_size, one.st_mtime_ns) for name, one in found.items()}


@pytest.mark.parametrize("output", ["--completions", "--summary"])
@pytest.mark.parametrize("place", PLACES)
def test_an_output_that_is_something_else_is_refused(
    tmp_path: Path, output: str, place: str
) -> None:
    # GIVEN a plan, and a target with content that is only read
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 8)])
    target = tmp_path / "t"
    target.write_bytes(b"precious" * 512)
    (tmp_path / "hard").hardlink_to(target)
    (tmp_path / "soft").symlink_to(target)
    (tmp_path / "here").symlink_to(tmp_path)
    other = "--summary" if output == "--completions" else "--completions"
    words: dict[str, list[str | Path]] = {
        "plan": [output, "./a.plan", "--target", target],
        "target": [output, target, "--target", "t"],
        "hard link": [output, "hard", "--target", target],
        "symbolic link": [output, "soft", "--target", target],
        "new target": [output, "here/new", "--target", "new"],
        "each other": [output, "t", other, target, "--target", "elsewhere"],
        "new twin": [output, "here/same", other, tmp_path / "same", "--target", target],
    }
    before = state_of(tmp_path)
    # WHEN completions or summary would go to one of these
    ran = replay(plan, *words[place], cwd=tmp_path)
    # THEN that is one line, and nothing was made or replaced
    assert ran.returncode == 1
    assert " cannot go to " in ran.stderr, ran.stderr
    assert ran.stderr.count("\n") == 1
    assert state_of(tmp_path) == before
    assert target.read_bytes() == b"precious" * 512


@pytest.mark.parametrize("output", ["--results", "--summary"])
def test_a_file_plan_is_not_replaced(tmp_path: Path, output: str) -> None:
    plan = file_program.write_plan(tmp_path / "plan", [[file_program.do("sync")]])
    data = plan.read_bytes()
    ran = subprocess.run(
        [program_path(), plan, tmp_path, output, plan],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "that is the plan" in ran.stderr
    assert plan.read_bytes() == data


@pytest.mark.parametrize("output", ["--completions", "--summary"])
def test_an_output_in_no_folder_is_found_out_before_the_run(tmp_path: Path, output: str) -> None:
    plan = write_plan(tmp_path / "a.plan", [record(WRITE, 0, 8)])
    ran = replay(plan, "--target", "t", output, "no/such", "--keep", cwd=tmp_path)
    assert ran.returncode == 1
    assert "to no/such: No such file or directory" in ran.stderr
    assert not (tmp_path / "t").exists()


def test_both_outputs_may_go_where_nothing_is_kept(tmp_path: Path) -> None:
    plan = write_plan(tmp_path / "a.plan", [record(READ, 0, 8)])
    ran = replay(plan, "--engine", "null", "--summary", "/dev/null", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")


@needs_root
@pytest.mark.root
def test_a_summary_that_has_no_room_is_not_lost(tmp_path: Path) -> None:
    # GIVEN a full file system for the summary, and an old one there
    plan = write_plan(tmp_path / "a.plan", [record(WRITE, 0, 8)])
    with small_file_system(tmp_path / "full") as full:
        (full / "s.json").write_text("old")
        with (full / "filling").open("wb", buffering=0) as filling, suppress(OSError):
            while True:
                filling.write(bytes(4096))
        # WHEN a run ends
        ran = replay(plan, "--target", "t", "--keep", "--summary", full / "s.json", cwd=tmp_path)
        # THEN the summary is on stdout, the old one is there still, and the data is written
        assert ran.returncode == 1
        assert "No space left on device; it is on stdout instead" in ran.stderr
        assert json.loads(ran.stdout)["counts"]["done"] == 1
        assert sorted(os.listdir(full)) == ["filling", "s.json"]
        assert (full / "s.json").read_text() == "old"
    assert (content(tmp_path / "t") == expected_content([record(WRITE, 0, 8)], 4096)).all()
