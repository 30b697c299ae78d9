"""Hostile folders: those that once did harm, and the first few that the fuzzer draws."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz import folders, whole_folder
from tests.fuzz.known_folders import CASES

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
