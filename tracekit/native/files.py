"""Runs `tracekit-file-replay` and reads its summary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tracekit.native import FILE_PROGRAM
from tracekit.native import replay as block_replay
from tracekit.native.replay import Outcome, run_command

INTERFACE = "tracekit-file-replay interface 1"


def checked_program() -> Path:
    """Return the program's path; raise TracekitError when it is of another version."""
    return block_replay.checked_program(FILE_PROGRAM, INTERFACE)


def run_files(
    plan: Path, directory: Path, *, summary: Path, arguments: Sequence[str] = ()
) -> Outcome:
    """Run a file plan below a directory with the program's own options; return what it said.

    Ctrl-C reaches the program, which then stops in good order. Raises TracekitError with the
    program's message when it refused or failed.
    """
    command = [str(checked_program()), str(plan), str(directory), "--summary", str(summary)]
    return run_command([*command, *arguments], summary)
