"""Runs `tracekit-file-replay` and reads its summary."""

from __future__ import annotations

import functools
import json
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tracekit.errors import TracekitError, UsageError
from tracekit.native import FILE_PROGRAM, program_path
from tracekit.native.replay import DONE, PARTIAL, USAGE, Outcome, forwarded_signals, terminal

INTERFACE = "tracekit-file-replay interface 1"


@functools.cache
def checked_program() -> Path:
    """Return the program's path; raise TracekitError when it is of another version."""
    path = program_path(FILE_PROGRAM)
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    if told.stdout.strip() != INTERFACE:
        raise TracekitError(
            f"{path} is of another version: it says '{told.stdout.strip()}', not '{INTERFACE}'",
            hint="build it again: make setup",
        )
    return path


def run_files(
    plan: Path, directory: Path, *, summary: Path, arguments: Sequence[str] = ()
) -> Outcome:
    """Run a file plan below a directory with the program's own options; return what it said.

    Ctrl-C reaches the program, which then stops in good order. Raises TracekitError with the
    program's message when it refused or failed.
    """
    command = [str(checked_program()), str(plan), str(directory), "--summary", str(summary)]
    with terminal() as shown:
        progress = [] if shown is None else ["--progress-fd", str(shown)]
        with (
            forwarded_signals() as forward,
            subprocess.Popen(
                [*command, *progress, *arguments],
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=() if shown is None else (shown,),
            ) as child,
        ):
            forward.to(child)
            messages = (child.stderr.read() if child.stderr else b"").decode(errors="replace")
            code = child.wait()
    if code in (-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP):
        raise KeyboardInterrupt  # before the program could take it: nothing was made
    if code not in (DONE, PARTIAL):
        lines = [line.removeprefix(f"{FILE_PROGRAM}: ") for line in messages.splitlines()]
        text = "; ".join(lines) or f"{FILE_PROGRAM} ended with code {code} and said nothing"
        raise UsageError(text) if code == USAGE else TracekitError(text)
    told = summary.read_bytes().decode("utf-8", errors="backslashreplace")
    return Outcome(json.loads(told), messages, code == PARTIAL)
