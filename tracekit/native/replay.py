"""Runs `tracekit-replay` and reads its summary."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracekit.errors import TracekitError, UsageError
from tracekit.native import program_path

INTERFACE = "tracekit-replay interface 2"
DONE, USAGE, PARTIAL = 0, 2, 3


@dataclass(frozen=True)
class Outcome:
    """What the program said: its summary, its talk, and whether it did all."""

    summary: dict[str, Any]
    messages: str
    is_partial: bool


@functools.cache
def checked_program() -> Path:
    """Return the program's path; raise TracekitError when it is of another version."""
    path = program_path()
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    if told.stdout.strip() != INTERFACE:
        raise TracekitError(
            f"{path} is of another version: it says '{told.stdout.strip()}', not '{INTERFACE}'",
            hint="build it again: make setup",
        )
    return path


def run_program(plan: Path, summary: Path, *, arguments: Sequence[str]) -> Outcome:
    """Run a plan with the program's own options and return what it said.

    Ctrl-C reaches the program, which then stops in good order. Raises TracekitError with the
    program's message when it refused or failed.
    """
    command = [str(checked_program()), str(plan), "--summary", str(summary), *arguments]
    with _terminal() as terminal:
        if terminal is not None:
            command += ["--progress-fd", str(terminal)]
        with (
            subprocess.Popen(
                command,
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=() if terminal is None else (terminal,),
            ) as child,
            _signals_for(child),
        ):
            messages = (child.stderr.read() if child.stderr else b"").decode(errors="replace")
            code = child.wait()
    if code not in (DONE, PARTIAL):
        raise _failure(code, messages)
    # A path in the summary may hold bytes that are no UTF-8.
    text = summary.read_bytes().decode("utf-8", errors="backslashreplace")
    return Outcome(json.loads(text), messages, code == PARTIAL)


def _failure(code: int, messages: str) -> TracekitError:
    lines = [line.removeprefix("tracekit-replay: ") for line in messages.splitlines()]
    said = f"ended with code {code} and said nothing"
    if code < 0:
        said = f"was killed by {signal.Signals(-code).name}"
    text = "; ".join(lines) or f"tracekit-replay {said}"
    return UsageError(text) if code == USAGE else TracekitError(text)


@contextmanager
def _terminal() -> Iterator[int | None]:
    """Yield a descriptor of the terminal on stderr, for the progress line, or None."""
    if not sys.stderr.isatty():
        yield None
        return
    terminal = os.dup(sys.stderr.fileno())
    try:
        yield terminal
    finally:
        os.close(terminal)


@contextmanager
def _signals_for(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leave Ctrl-C, SIGTERM and SIGHUP to the child, which ends in good order, and wait for it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stoppers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    numbers = [number for number in stoppers if signal.getsignal(number) is not signal.SIG_IGN]
    before = [signal.signal(number, lambda n, _frame: child.send_signal(n)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
