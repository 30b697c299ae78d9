"""The command that a capture runs: its terminal, its signals, and how it ends.

A command is never ended by a capture. It gets the signals that the capture gets, keeps the terminal
as a job of its own, and runs on where a recording fails.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from tracekit.errors import TracekitError, UsageError, foreign_error
from tracekit.invoking_user import User, popen_options

STOPPERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TERMINAL = "/dev/tty"


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
    failure: TracekitError | None = None
    """Why what was to be done beside it was given up before its end."""
    runs_on: int | None = None
    """Its process, where a second signal came before it ended."""

    @property
    def exit_code(self) -> int:
        """What a shell says of it."""
        return shell_code(self.exit_status)


def shell_code(exit_status: int) -> int:
    """Return the exit code that a shell has for how a command ended."""
    return exit_status if exit_status >= 0 else 128 - exit_status


class Terminal:
    """The terminal of this process, lent to a command's group as a shell lends it to a job."""

    def __init__(self) -> None:
        try:
            self._number = os.open(TERMINAL, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError:
            self._number = -1  # a service, or a part of a pipeline without one

    def follow(self, child: int) -> None:
        """Give the terminal to the child's group if it is ours; stop with it if it stops."""
        if self._number < 0:
            return
        if self._is_with(os.getpgrp()):
            self._give(child)
            os.killpg(child, signal.SIGCONT)  # it may have asked for it before it had it
        if os.waitid(os.P_PID, child, os.WSTOPPED | os.WNOHANG) is None:
            return
        # The shell is to see that the job has stopped; whoever continues it, continues both.
        if self._is_with(child):
            self._give(os.getpgrp())
        os.killpg(os.getpgrp(), signal.SIGTSTP)
        if self._is_with(os.getpgrp()):
            self._give(child)
        os.killpg(child, signal.SIGCONT)

    def close(self, child: int) -> None:
        """Take the terminal back from the child's group."""
        if self._number < 0:
            return
        if self._is_with(child):
            self._give(os.getpgrp())
        os.close(self._number)

    def _is_with(self, group: int) -> bool:
        try:
            return os.tcgetpgrp(self._number) == group
        except OSError:
            return False  # it was hung up

    def _give(self, group: int) -> None:
        # Whoever gives it from the background would be stopped for that.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
        try:
            with suppress(OSError):  # the group has ended by now
                os.tcsetpgrp(self._number, group)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run(
    command: Sequence[str],
    stop: Stop,
    *,
    popen: Mapping[str, Any],
    is_stdout_ours: bool,
    each: Callable[[], object] = lambda: None,
    pause_s: float = 0.02,
) -> Ran:
    """Run the command to its end; call `each` between pauses until that fails.

    A signal is passed on to its group; at a second one it is left to itself. With `is_stdout_ours`,
    what it prints goes to stderr; `popen` says by whose rights it runs.
    """
    began_s = time.perf_counter()
    stdout = sys.stderr.fileno() if is_stdout_ours else None
    try:
        # In a group of its own, so that a signal reaches what it started.
        child = subprocess.Popen(command, process_group=0, stdout=stdout, **popen)
    except OSError as error:
        raise UsageError(f"{command[0]}: cannot be started: {error.strerror}") from None
    terminal = Terminal()
    try:
        failure = _wait(child, stop, terminal, each=each, pause_s=pause_s)
    finally:
        terminal.close(child.pid)
    command_s = time.perf_counter() - began_s
    status = child.poll()
    if status is None:
        return Ran(0, command_s, failure, runs_on=child.pid)
    if status == -signal.SIGINT and not stop.signals:
        stop.signals.append(signal.SIGINT)  # Ctrl-C goes to who has the terminal
    return Ran(status, command_s, failure)


def _wait(
    child: subprocess.Popen[bytes],
    stop: Stop,
    terminal: Terminal,
    *,
    each: Callable[[], object],
    pause_s: float,
) -> TracekitError | None:
    """Wait until the child has ended, or a second signal came; return why `each` failed."""
    failure: TracekitError | None = None
    passed_on = 0
    while True:
        terminal.follow(child.pid)
        if failure is None:
            failure = failure_of(each)
        with suppress(subprocess.TimeoutExpired):
            child.wait(pause_s)
            return failure
        for number in stop.signals[passed_on:1]:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, number)
            passed_on += 1
        if len(stop.signals) > 1:
            return failure


def failure_of(each: Callable[[], object]) -> TracekitError | None:
    """Call something; return why it failed, which must not be the command's failure."""
    try:
        each()
    except TracekitError as error:
        return error
    except Exception as error:
        named = TracekitError(f"{type(error).__name__}: {error}", hint="please report it")
        return foreign_error(error) or named
    return None


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
