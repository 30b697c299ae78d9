"""What README.md promises is what happens: its commands are run, its output is compared."""

from __future__ import annotations

import doctest
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.docs.tour import DEMO, README, steps
from tests.house.tree import ROOT

FIRST_COMMAND_BEFORE_LINE = 25
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_the_first_command_comes_early() -> None:
    lines = README.read_text().splitlines()
    first = next(number for number, line in enumerate(lines, 1) if line.startswith("$ "))
    assert first < FIRST_COMMAND_BEFORE_LINE
    assert lines[first - 1] == "$ make demo"


def test_make_demo_is_the_command_that_the_tour_runs() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown.splitlines()[-1] == DEMO


@pytest.mark.slow
def test_every_command_prints_what_is_shown(tmp_path: Path) -> None:
    # GIVEN a folder that looks like a checkout, with nothing made in it yet
    (tmp_path / "sample-traces").symlink_to(ROOT / "sample-traces")
    path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100"}
    differing = []
    # WHEN the commands are typed one after another
    for step in steps():
        if step.words[0] != "tracekit":
            continue
        result = subprocess.run(
            step.words,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert result.returncode == 0, f"{step.command}: {result.stderr}"
        # THEN each prints what is shown, but for what stands as three dots
        example = doctest.Example(step.command, f"{step.output}\n")
        checker = doctest.OutputChecker()
        if not checker.check_output(example.want, result.stdout, FLAGS):
            differing.append(
                f"$ {step.command}\n{checker.output_difference(example, result.stdout, FLAGS)}"
            )
    assert not differing, "\n".join(differing)
