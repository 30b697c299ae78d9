"""What README.md promises is what happens: its commands are run, its output is compared."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.docs.tour import DEMO, README, Step, steps
from tests.house.tree import ROOT

FIRST_COMMAND_BEFORE_LINE = 25
MEASURED = re.compile(r"(?<![\w.])-?\d[\d,.]*( (ns|us|ms|s)\b)?")
DURATION = re.compile(r"\d+\.\d s$")
OF_THE_MACHINE = ("engine ", "default: ", "warning: ")


def comparable(step: Step, output: str) -> list[str]:
    """Return the lines with single spaces, without what differs from run to run.

    That is the progress that `make demo` shows on a terminal, how long something took, and in a
    replay all numbers and what the machine can do.
    """
    lines = [" ".join(line.split()) for line in output.splitlines()]
    if step.command == "make demo":
        lines = lines[lines.index(next(line for line in lines if line.startswith("report: "))) :]
    if step.words[1] == "replay":
        lines = [MEASURED.sub("#", line) for line in lines if not line.startswith(OF_THE_MACHINE)]
    return [DURATION.sub("#", line) for line in lines if line]


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
    # WHEN the commands are typed one after another
    for step in steps():
        result = subprocess.run(
            step.words,
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "COLUMNS": "100"},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        # THEN each succeeds and prints what is shown
        assert result.returncode == 0, f"{step.command}: {result.stderr}"
        assert comparable(step, result.stdout) == comparable(step, step.output), step.command


def test_only_measured_numbers_are_passed_over() -> None:
    replay, other = Step("tracekit replay out/x", ""), Step("tracekit parse x", "")
    assert comparable(replay, "p50  3.5 us") == comparable(replay, "p50 1,234 ns")
    assert comparable(replay, "p50  3.5 us") != comparable(replay, "p99 3.5 us")
    assert comparable(other, "25 tables, 0.3 s") == comparable(other, "25 tables, 1.2 s")
    assert comparable(other, "48,698  requests") == ["48,698 requests"]
    assert comparable(other, "48,698 requests") != comparable(other, "48,699 requests")
