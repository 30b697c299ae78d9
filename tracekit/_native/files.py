"""Runs `tracekit-file-replay` and reads its summary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tracekit._native import FILE_PROGRAM
from tracekit._native import replay as block_replay
from tracekit._native.replay import KilledError, Outcome, run_command

INTERFACE = "tracekit-file-replay interface 1"
OWN_FOLDER = "tracekit-files"
"""What the program makes below the directory of a run."""
KEPT_MARK = "made-by-tracekit-file-replay"
"""What is in it when it was kept after its run."""


def checked_program() -> Path:
    """Return the program's path; raise TracekitError when it is of another version."""
    return block_replay.checked_program(FILE_PROGRAM, INTERFACE)


def run_files(
    plan: Path, directory: Path, *, summary: Path, arguments: Sequence[str] = ()
) -> Outcome:
    """Run a file plan below a directory with the program's own options; return what it said.

    Ctrl-C reaches the program, which then stops in good order. Raises TracekitError with the
    program's message when it refused, failed or was killed.
    """
    command = [str(checked_program()), str(plan), str(directory), "--summary", str(summary)]
    try:
        return run_command([*command, *arguments], summary)
    except KilledError as error:
        left = directory / OWN_FOLDER
        if not left.is_dir():
            raise
        raise KilledError(
            f"{error}; the next replay there removes what it left in {left}"
        ) from error
