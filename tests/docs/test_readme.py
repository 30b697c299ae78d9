"""What README.md promises is what happens: its commands are run, its output is compared."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.golden.session import DEMO, Step, comparable, run, steps
from tests.house.tree import ROOT

FIRST_COMMAND_BEFORE_LINE = 25
README = ROOT / "README.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


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
    # WHEN the commands of the tour are typed in a checkout with nothing made in it yet
    for step in steps("".join(BLOCK.findall(README.read_text()))):
        status, output = run(step.command, tmp_path, errors=None)
        # THEN each succeeds and prints what is shown
        assert status == 0, step.command
        assert comparable(Step(step.command, output)) == comparable(step), step.command
