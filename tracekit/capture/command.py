"""The command that a capture runs, and the signals that end it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from tracekit.errors import TracekitError, UsageError
from tracekit.invoking_user import User, popen_options

STOPPERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_S = 3.0


@dataclass
class Stop:
    """Set by the signal handlers."""

    signals: list[int] = field(default_factory=list)

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Note a signal."""
        self.signals.append(number)

    @property
    def name(self) -> str | None:
        """Return the name of the first signal."""
        return signal.Signals(self.signals[0]).name if self.signals else None


@contextmanager
def signals_held() -> Iterator[Stop]:
    """Let the stopping signals only be noted, so that every way out is the ordered one."""
    stop = Stop()
    before = {number: signal.signal(number, stop) for number in STOPPERS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    exit_status: int
    """Negative for a signal."""
    command_s: float


def run(
    command: Sequence[str],
    stop: Stop,
    *,
    popen: Mapping[str, Any],
    is_stdout_ours: bool,
    each: Callable[[], object] = lambda: None,
    pause_s: float = 0.02,
) -> Ran:
    """Run the command to its end, or end it when a signal comes; call `each` between pauses.

    With `is_stdout_ours`, what it prints goes to stderr; `popen` says by whose rights it runs.
    """
    began_s = time.perf_counter()
    stdout = sys.stderr.fileno() if is_stdout_ours else None
    try:
        # In a group of its own, so that a signal reaches what it started.
        child = subprocess.Popen(command, process_group=0, stdout=stdout, **popen)
    except OSError as error:
        raise UsageError(f"{command[0]}: cannot be started: {error.strerror}") from None
    try:
        while not stop.signals:
            each()
            try:
                child.wait(pause_s)
            except subprocess.TimeoutExpired:
                continue
            break
        command_s = time.perf_counter() - began_s
        end(child, each)
        return Ran(child.returncode, command_s)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)


def run_untraced(command: Sequence[str], *, user: User | None, is_stdout_ours: bool) -> float:
    """Run the command as it is, waited for as under a trace; return how long it took.

    Raise TracekitError when a signal ends it or it fails: its time would say nothing.
    """
    with signals_held() as stop:
        ran = run(command, stop, popen=popen_options(user), is_stdout_ours=is_stdout_ours)
    if stop.name:
        raise TracekitError(f"the untraced run was ended by {stop.name}")
    if ran.exit_status:
        raise TracekitError(f"the untraced run failed with status {ran.exit_status}")
    return ran.command_s


def end(child: subprocess.Popen[bytes], while_waiting: Callable[[], object]) -> None:
    """End the command's group if it still runs: ask first, then insist."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.poll() is not None:
            return
        os.killpg(child.pid, number)
        end_s = time.monotonic() + PATIENCE_S
        while child.poll() is None and time.monotonic() < end_s:
            while_waiting()
            time.sleep(0.02)
