"""What the fuzzers found worth keeping, through the library as it was built; hostile folders."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.fuzz import corpus, folders, whole_folder
from tests.fuzz.known_folders import CASES

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


DRAWN = 8


def test_no_folder_harms_what_is_not_its_own() -> None:
    command = [sys.executable, "-m", "tests.fuzz.folders", "--first", "1", "--cases", str(DRAWN)]
    ran = subprocess.run(
        [*command, "--seconds", "500"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"folders: {len(CASES) + DRAWN} cases: " in ran.stdout
    assert "ended well" in ran.stdout


def wait_for_a_pipe() -> None:
    os.mkfifo("trace/pipe")
    Path("trace/pipe").read_text()


HARM: dict[str, Callable[[], object]] = {
    "outside": lambda: Path("outside/made.img").write_text("mine"),
    "shown": lambda: sys.stdout.write(Path("outside/made.img").read_text()),
    "escape": lambda: sys.stdout.write("\x1b[31m"),
    "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "traceback": lambda: int("key"),
    "hang": wait_for_a_pipe,
    "memory": lambda: sys.stdout.write("tracekit: there is not enough memory"),
}


@pytest.mark.parametrize("kind", HARM)
def test_each_kind_of_harm_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    # GIVEN a command that does it
    whole_folder.unpack(tmp_path / "whole")
    monkeypatch.setattr(folders, "tracekit", HARM[kind])
    monkeypatch.setattr(folders, "IDLE_S", 2)
    # WHEN it is tried, THEN it is named, and nothing else
    found = folders.check(("sql",), tmp_path / "whole", tmp_path / "case", change=lambda: None)
    assert list(found.problems) == [kind]


def test_a_command_that_does_no_harm_has_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_folder.unpack(tmp_path / "whole")
    monkeypatch.setattr(folders, "tracekit", lambda: Path("trace/report.html").write_text("new"))
    found = folders.check(("sql",), tmp_path / "whole", tmp_path / "case", change=lambda: None)
    assert (found.problems, found.end) == ({}, "ended well")
