"""Every input that the fuzzers found worth keeping, through the library as it was built."""

import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.fuzz import corpus

INPUTS = {"calls": 37, "columns": 203, "decode": 354, "octf": 196, "texts": 202}
REPLAY = (sys.executable, "-m", "tests.fuzz.replay")
CRASH = f"import os; print(1, 2, sep='\\n', flush=True); os.kill(os.getpid(), {signal.SIGSEGV:d})"


def replayed(command: Sequence[str], target: str) -> tuple[list[str], list[str]]:
    """Return the names of all inputs, and what fails: an input that ends the process too."""
    names: list[str] = []
    failures: list[str] = []
    while True:
        ran = subprocess.run(
            [*command, target, str(len(names))], capture_output=True, text=True, check=False
        )
        names += (done := ran.stdout.splitlines())
        failures += [ran.stderr] if ran.stderr else []
        if ran.returncode >= 0 or not done:
            return names, failures
        failures.append(f"{target}/{names[-1]}: {signal.Signals(-ran.returncode).name}")


@pytest.mark.parametrize("target", corpus.TARGETS)
def test_inputs_end_in_rows_or_a_problem(target: str) -> None:
    names, failures = replayed(REPLAY, target)

    assert "\n".join(failures) == ""
    assert names == list(corpus.read(target))
    assert len(names) >= INPUTS[target]


def test_an_input_that_ends_the_process_is_named() -> None:
    # GIVEN a process that ends by a signal at its second input, each time that it is started
    code = f"import sys; sys.argv[2] == '4' and sys.exit(); {CRASH}"
    # WHEN it is replayed THEN it goes on behind each of these inputs
    assert replayed((sys.executable, "-c", code), "octf") == (
        ["1", "2", "1", "2"],
        ["octf/2: SIGSEGV", "octf/2: SIGSEGV"],
    )
