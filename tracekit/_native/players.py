"""Runs `tracekit-replay` on plans of blocks and of files, and reads what it leaves."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit._native import PROGRAM, program_path
from tracekit._native.library import constant, dtype_of
from tracekit.arrow import number_column, text_column
from tracekit.errors import PartialError, StoppedError, TracekitError, UsageError
from tracekit.progress import hidden

INTERFACE = f"{PROGRAM} interface {constant('TK_INTERFACE_VERSION')}"
DONE, USAGE, PARTIAL = 0, 2, 3
EXIT_S = 5.0
"""From the end of its output to that of the program, unless a request hangs in the kernel."""
FORCED_EXIT_S = 0.3
"""The same after a second signal: most likely a request hangs."""
OWN_FOLDER = "tracekit-files"
"""What the file player makes below the directory of a run."""
KEPT_MARK = "made-by-tracekit-file-replay"
"""What is in it when it was kept after its run."""
RESULTS_MAGIC = b"TKFDON\r\n"
RESULTS_HEADER_BYTES = 64
RESULT = dtype_of("struct results_record")
BATCH_ROWS = 1 << 16
MOVES = ("read", "write")
STOPPERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Outcome:
    """What the program said: its summary, its talk, and whether it did all."""

    summary: dict[str, Any]
    messages: str
    is_partial: bool
    signals: tuple[int, ...] = ()
    """That came while it ran."""

    @property
    def late_signals(self) -> tuple[int, ...]:
        """Those that came after the last request, and so did not end it."""
        return () if self.summary.get("outcome") == "interrupted" else self.signals


@functools.cache
def checked_program() -> Path:
    """Return the program's path; raise TracekitError when it is of another version."""
    path = program_path()
    run = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    found = run.stdout.strip()
    if found != INTERFACE:
        raise TracekitError(
            f"{path} is of another version: '{found}', not '{INTERFACE}'",
            hint="build it again: make setup",
        )
    return path


def run_program(
    plan: Path,
    summary: Path,
    *,
    arguments: Sequence[str],
    on_start: Callable[[int], object] = lambda _pid: None,
) -> Outcome:
    """Run a plan with the program's own options and return what it said.

    Ctrl-C reaches the program, which then stops in good order; `on_start` gets its process. Raises
    TracekitError with the program's message when it refused or failed.
    """
    command = [str(checked_program()), str(plan), "--summary", str(summary), *arguments]
    return run_command(command, summary, on_start=on_start)


def run_files(
    plan: Path, directory: Path, *, summary: Path, arguments: Sequence[str] = ()
) -> Outcome:
    """Run a file plan below a directory with the program's own options; return what it said.

    Ctrl-C reaches the program, which then stops in good order. Raises TracekitError with the
    program's message when it refused, failed or was killed.
    """
    program = str(checked_program())
    command = [program, str(plan), str(directory), "--summary", str(summary)]
    for option, number in zip(("--control-fd", "--ack-fd"), perf_control(), strict=False):
        command += [option, str(number)]
    try:
        return run_command([*command, *arguments], summary)
    except (KilledError, StoppedError) as error:
        left = directory / OWN_FOLDER
        if not left.is_dir():
            raise
        told = f"{error}; the next replay there removes what it left in {left}"
        if isinstance(error, StoppedError):
            raise StoppedError(told, exit_code=error.exit_code) from error
        raise KilledError(told) from error


PERF_CONTROL = "TRACEKIT_PERF_CONTROL"


def perf_control() -> tuple[int, ...]:
    """Return the descriptors for commands to a perf that counts this process and for its answers.

    `tracekit counters --timed` opens them, and says so in the environment; empty without.
    """
    return tuple(map(int, filter(None, os.environ.get(PERF_CONTROL, "").split(","))))


def run_command(
    command: Sequence[str], summary: Path, *, on_start: Callable[[int], object] = lambda _pid: None
) -> Outcome:
    """Run the program, with a progress line on a terminal, and read its summary.

    Raise StoppedError when it failed after a signal, or before its first request.
    """
    code, messages, signals = _watched(command, on_start)
    if -code in STOPPERS:
        raise Stopped(-code)  # before the program could take it: nothing was made
    if code not in (DONE, PARTIAL):
        failure = _failure(Path(command[0]).name, code, messages)
        raise StoppedError(str(failure), exit_code=128 + signals[0]) if signals else failure
    if code == PARTIAL and not summary.exists():
        nothing = "stopped before the first request: nothing was replayed"
        raise (
            StoppedError(nothing, exit_code=128 + signals[0]) if signals else PartialError(nothing)
        )
    # A path in the summary may hold bytes that are no UTF-8.
    text = summary.read_bytes().decode("utf-8", errors="backslashreplace")
    return Outcome(json.loads(text), messages, code == PARTIAL, signals)


def _watched(
    command: Sequence[str], on_start: Callable[[int], object]
) -> tuple[int, str, tuple[int, ...]]:
    """Run a program to its end; return its exit code, what it said on stderr, and the signals."""
    with terminal() as shown:
        progress = [] if shown is None else ["--progress-fd", str(shown)]
        with forwarded_signals() as forward:
            child = subprocess.Popen(
                [*command, "--parent", str(os.getpid()), *progress],
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=(*perf_control(), *([] if shown is None else [shown])),
            )
            forward.to(child)
            on_start(child.pid)
            with cast("BinaryIO", child.stderr) as output:
                messages = output.read().decode(errors="replace")
            wait_s = FORCED_EXIT_S if len(forward.taken) > 1 else EXIT_S
            return _code_of(child, wait_s), messages, tuple(forward.taken)


def _code_of(child: subprocess.Popen[bytes], wait_s: float) -> int:
    """Return the exit code of a program that has closed its output.

    Its results are whole then. One whose requests hang in the kernel cannot end, and is left there.
    """
    try:
        return child.wait(wait_s)
    except subprocess.TimeoutExpired:
        child.returncode = PARTIAL  # nobody waits for it any more
        return PARTIAL


class KilledError(TracekitError):
    """The program was killed: it could not end in good order."""


def _failure(program: str, code: int, messages: str) -> TracekitError:
    lines = [line.removeprefix(f"{program}: ") for line in messages.splitlines()]
    said = f"ended with code {code} and said nothing"
    if code < 0:
        said = f"was killed by {signal.Signals(-code).name}"
    text = "; ".join([*lines, *([f"{program} {said}"] if code < 0 or not lines else [])])
    if code < 0:
        return KilledError(text)
    return UsageError(text) if code == USAGE else TracekitError(text)


@contextmanager
def terminal() -> Iterator[int | None]:
    """Yield a descriptor of the terminal on stderr, for the progress line, or None.

    Two lines would overwrite each other, so that of this process is gone meanwhile.
    """
    if not sys.stderr.isatty():
        yield None
        return
    copy = os.dup(sys.stderr.fileno())
    try:
        with hidden():
            yield copy
    finally:
        os.close(copy)


class Forward:
    """Passes Ctrl-C, SIGTERM and SIGHUP on to a child, also those that come before it is there."""

    def __init__(self) -> None:
        """Start without a child."""
        self._child: subprocess.Popen[bytes] | None = None
        self.taken: list[int] = []

    def to(self, child: subprocess.Popen[bytes]) -> None:
        """Pass on to this child from now on, and what came before."""
        self._child = child
        for number in self.taken:
            child.send_signal(number)

    def take(self, number: int, _frame: object) -> None:
        """Handle a signal."""
        self.taken.append(number)
        if self._child is not None:
            self._child.send_signal(number)


@contextmanager
def forwarded_signals() -> Iterator[Forward]:
    """Leave signals to the child, which ends in good order, and wait for it."""
    forward = Forward()
    with _taken_by(forward.take):
        yield forward


@contextmanager
def _taken_by(take: Callable[[int, Any], None]) -> Iterator[dict[int, Any]]:
    """Let a function take the signals that end a command, but for those that the caller ignores.

    Yields what handled them before.
    """
    if threading.current_thread() is not threading.main_thread():
        yield {}
        return
    numbers = [number for number in STOPPERS if signal.getsignal(number) is not signal.SIG_IGN]
    before: dict[int, Any] = {number: signal.signal(number, take) for number in numbers}
    try:
        yield before
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Stopped(KeyboardInterrupt):
    """A signal that nothing else handles; `code` is that of a program that it ended."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.code = 128 + number


@contextmanager
def raised_signals() -> Iterator[None]:
    """Let the signals that end a command raise Stopped, whoever else handles them."""

    def stop(number: int, _frame: object) -> NoReturn:
        raise Stopped(number)

    with _taken_by(stop):
        yield


class Waiting:
    """Signals that come while results are completed: the first one waits, a second one raises."""

    def __init__(self, stopped: str = "") -> None:
        """Start without one, and before there are results; `stopped` says what is kept."""
        self.stopped, self.hint = stopped, ""
        self.taken: list[int] = []
        self.before: dict[int, Any] = {}
        self._has_begun = False
        self.raises = True

    def take(self, number: int, _frame: object = None) -> None:
        """Handle a signal."""
        if self._has_begun:
            self.taken.append(number)
        if not self._has_begun or (len(self.taken) == 2 and self.raises):
            self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        handler = self.before.get(number)
        if callable(handler):
            handler(number, None)
        # What ends a process by default would leave no time to say what is kept.
        raise Stopped(number)

    def begin(self, outcome: Outcome) -> None:
        """Let signals wait from now on, and those that the program got after its last request."""
        self._has_begun = True
        for number in outcome.late_signals:
            self.take(number)


@contextmanager
def waiting_signals(stopped: str) -> Iterator[Waiting]:
    """Let signals wait until the block ends, and raise StoppedError then, which says `stopped`.

    They do so once it has begun, and all but the first only without `raises`. The block may change
    what is said.
    """
    waiting = Waiting(stopped)
    with _taken_by(waiting.take) as waiting.before:
        yield waiting
    if waiting.taken:
        raise StoppedError(waiting.stopped, exit_code=128 + waiting.taken[0], hint=waiting.hint)


def read_results(file: Path) -> Iterator[NDArray[np.void]]:
    """Yield the records of a results file of the file player, as arrays of RESULT.

    Left out is what a program that was killed did not write, or not to the end.
    """
    with file.open("rb") as stream:
        if stream.read(RESULTS_HEADER_BYTES)[: len(RESULTS_MAGIC)] != RESULTS_MAGIC:
            raise TracekitError(f"{file} holds no results of {PROGRAM}")
        while data := stream.read(RESULT.itemsize * BATCH_ROWS):
            rows = np.frombuffer(data, RESULT, len(data) // RESULT.itemsize)
            yield rows if rows["is_whole"].all() else rows[rows["is_whole"] != 0]


def columns_of(rows: NDArray[np.void], *, words: Sequence[str]) -> dict[str, pa.Array]:
    """Return records as Arrow arrays by the names of tables; `words` are the names of operations.

    All fields but `step`, `is_whole` and `result`, which becomes `done_bytes` and `error`.
    """
    moves = np.isin(rows["operation"], [words.index(name) for name in MOVES])
    made = {
        "operation": text_column(rows["operation"].astype(np.int32), words),
        "done_bytes": number_column(rows["result"], valid=moves & (rows["result"] >= 0)),
        "error": number_column(np.maximum(-rows["result"], 0).astype(np.int32)),
    }
    for name in ("thread", "cycle"):
        made[name] = number_column(rows[name].astype(np.int32))
    for name in ("operation_id", "start_ns", "end_ns"):
        made[name] = number_column(rows[name].astype(np.int64))
    for name in ("is_expected", "is_timed"):
        made[name] = number_column(rows[name] != 0)
    return made
