"""One program for two kinds of plan: it knows which, and rejects what is for the other."""

import subprocess
from pathlib import Path

import pytest

from tests.replay.program import READ, record, write_plan
from tests.replay_files import program as files
from tracekit._native import program_path


def refused(*words: str | Path) -> str:
    """Return the line of a command line that makes no sense."""
    command = [program_path(), *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1), ran.stderr
    return ran.stderr.removeprefix("tracekit-replay: ").rstrip()


def of_blocks(folder: Path) -> Path:
    return write_plan(folder / "blocks", [record(READ, 0, 8)])


def of_files(folder: Path) -> Path:
    return files.write_plan(folder / "files", [[files.do("sync")]])


@pytest.mark.parametrize(
    "words",
    [("--repeat", "2"), ("--results", "r"), ("--cache", "cold"), ("--replace",)],
)
def test_an_option_of_files_is_rejected_for_blocks(tmp_path: Path, words: tuple[str, ...]) -> None:
    plan = of_blocks(tmp_path)
    assert refused(plan, "--engine", "null", *words) == (
        f"{words[0]} is only for a plan of files, and {plan} is a plan of blocks"
    )


@pytest.mark.parametrize(
    "words",
    [("--target", "t"), ("--engine", "null"), ("--completions", "c"), ("--dry-run",)],
)
def test_an_option_of_blocks_is_rejected_for_files(tmp_path: Path, words: tuple[str, ...]) -> None:
    plan = of_files(tmp_path)
    assert refused(plan, tmp_path, *words) == (
        f"{words[0]} is only for a plan of blocks, and {plan} is a plan of files"
    )
    assert not (tmp_path / "tracekit-files").exists()


def test_the_directory_is_that_of_a_plan_of_files(tmp_path: Path) -> None:
    blocks, plan = of_blocks(tmp_path), of_files(tmp_path)
    assert refused(blocks, tmp_path, "--engine", "null") == (
        f"{blocks} is a plan of blocks, which takes no directory such as {tmp_path}: "
        "name a --target"
    )
    assert refused(plan) == f"{plan} is a plan of files: in which directory? see --help"
    assert refused(plan, "a", "b") == "one plan and at most one directory, not b as well"


def test_each_kind_has_its_own_pace(tmp_path: Path) -> None:
    # WHEN a plan of each kind runs without --pace
    ran = files.run(of_files(tmp_path), tmp_path)
    blocks = subprocess.run(
        [program_path(), of_blocks(tmp_path), "--engine", "null"],
        capture_output=True,
        text=True,
        check=True,
    )
    # THEN blocks run at the times of the plan and files as fast as they can
    assert '"pace": "trace"' in blocks.stdout
    assert ran.summary["pace"] == "fast"
