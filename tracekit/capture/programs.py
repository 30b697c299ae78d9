"""Sources of block events that run a program: what they share, and perf(1).

A source has `start`, `drain` to be called often, `stop` and, in any case, `close`; `stop` returns a
recording, which writes the capture's files. perf is for where nothing better works. What is kept is
the text of perf script, which outlives the version of perf that wrote perf.data, and which one
native decoder reads.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO

from tracekit.capture.recording import (
    CHUNK_BYTES,
    CaptureFiles,
    CaptureFolder,
    NothingRecordedError,
)
from tracekit.capture.tracefs import tracefs_folder
from tracekit.errors import TracekitError
from tracekit.helper_programs import find_helper, run_helper, start_helper, why_missing

EVENTS = (
    *("bio_queue", "bio_remap", "bio_backmerge", "bio_frontmerge", "bio_complete", "split"),
    *("getrq", "rq_insert", "rq_issue", "rq_merge", "rq_requeue", "rq_complete"),
)
"""Names behind `block:block_`."""


def known_events() -> list[str]:
    """Return those of EVENTS that this kernel has."""
    folder = tracefs_folder() / "events/block"
    return [name for name in EVENTS if (folder / f"block_{name}").is_dir()]


def disk_numbers(disks: Sequence[Path]) -> list[int]:
    """Return the device numbers of disks and their partitions, as the kernel's events have them.

    An event of a partition's request may carry the partition's number (include/linux/kdev_t.h:
    major << 20 | minor).
    """
    files: list[Path] = []
    for disk in disks:
        files += [disk / "dev", *sorted(disk.glob(f"{disk.name}*/dev"))]
    pairs = [file.read_text().split(":") for file in files]
    return [int(major) << 20 | int(minor) for major, minor in pairs]


STOP_S = 120.0
PROBE_S = 30.0


class Program:
    """One run of a program that records; its own messages go to the file `log`."""

    def __init__(self, name: str, log: Path, *, remedy: str, noise: str = "") -> None:
        """Prepare to run `name`; a line of its log that matches `noise` gives no reason."""
        self._name, self.log, self._remedy, self._noise = name, log, remedy, noise
        self._running: subprocess.Popen[bytes] | None = None

    def launch(
        self,
        command: Sequence[str],
        *,
        pipes: bool = False,
        output: BinaryIO | None = None,
        pass_fds: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Start it, with pipes as its input and output or else without an input.

        What it prints goes to `output` if that is given.
        """
        with self.log.open("wb") as log:
            self._running = start_helper(
                command,
                stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
                stdout=output or (subprocess.PIPE if pipes else log),
                stderr=log,
                umask=0o077,
                process_group=0,
                pass_fds=pass_fds,
            )
        return self._running

    def start(self, command: Sequence[str]) -> None:
        """Start it and wait until it answers a line; raise TracekitError when it ends instead."""
        running = self.launch(command, pipes=True)
        has_begun = False
        with suppress(BrokenPipeError):
            question = pipe_of(running.stdin)
            question.write(b"\n")
            question.flush()
            has_begun = bool(pipe_of(running.stdout).readline())
        if not has_begun:
            raise self.failure(f"{self._name} did not begin")

    def check(self) -> subprocess.Popen[bytes]:
        """Return its process; raise TracekitError when it does not run."""
        if self._running is None or self._running.poll() is not None:
            raise self.failure(f"{self._name} ended by itself")
        return self._running

    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._running is not None and self._running.poll() is None

    def ask_to_stop(self) -> subprocess.Popen[bytes]:
        """End its input, at which it ends; return its process."""
        if self._running is None:
            raise self.failure(f"{self._name} was not started")
        pipe_of(self._running.stdin).close()
        return self._running

    def stop(self) -> None:
        """End its input and wait until it has written the rest."""
        running = self.ask_to_stop()
        try:
            status = running.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise self.failure(f"{self._name} did not end within {STOP_S:.0f} s") from None
        if status != 0:
            how = "by itself" if status < 0 else f"with status {status}"
            raise self.failure(f"{self._name} ended {how}")

    def close(self) -> None:
        """End it, whatever state it is in; its events in the kernel go with it."""
        running = self._running
        if running is None:
            return
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        for pipe in (running.stdin, running.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()

    def messages(self) -> str:
        """Return what it wrote to its log so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def failure(self, what: str) -> TracekitError:
        """Return the error that says what went wrong, with the program's own first words."""
        folder = self.log.parent
        if os.statvfs(folder).f_bavail == 0:
            return TracekitError(
                f"{what}: no space is left on the file system of {folder.parent}",
                hint="free some space, or choose an --output on another file system",
            )
        status = self._running.poll() if self._running else None
        killed = f"by {signal.Signals(-status).name}" if status and status < 0 else NO_REASON
        reason = first_line(self.messages(), noise=self._noise, otherwise=killed)
        return TracekitError(f"{what}: {reason}", hint=self._remedy)


class ProgramSource(ABC):
    """A source whose program writes what it records by itself."""

    copies = 1.0
    """How much the files of a capture take, by the size of what the program writes."""

    def __init__(self, program: Program, data: Path) -> None:
        self._program, self._data = program, data
        self._seen_bytes = 0
        self.facts: dict[str, Any] = {}
        """What is to be known of the records beside them."""

    @abstractmethod
    def start(self) -> dict[str, Any]:
        """Begin to record; raise TracekitError when the program does not. Return the facts."""

    def drain(self) -> int:
        """Return the bytes that the program wrote since the last call."""
        self._program.check()
        before, self._seen_bytes = self._seen_bytes, self._written_bytes()
        return max(self._seen_bytes - before, 0)

    def _written_bytes(self) -> int:
        return self._data.stat().st_size if self._data.exists() else 0

    def close(self) -> None:
        """End the program, whatever state it is in; its events in the kernel go with it."""
        self._program.close()


def pipe_of(pipe: IO[bytes] | None) -> IO[bytes]:
    """Return a pipe of a process; raise ValueError when it was started without it."""
    if pipe is None:
        raise ValueError("the process was started without this pipe")
    return pipe


NO_REASON = "it gave no reason"


def first_line(text: str, *, noise: str = "", otherwise: str = NO_REASON) -> str:
    """Return the first line that says something, and does not match `noise` if that is given."""
    lines = (line.strip() for line in text.splitlines())
    return next(
        (line for line in lines if line and not (noise and re.search(noise, line))), otherwise
    )


def probe_failure(command: Sequence[str], *, within_s: float, noise: str = "") -> str | None:
    """Run a command that shows whether a program works; return why it fails, or None."""
    name = Path(command[0]).name
    if find_helper(command[0]) is None:
        return why_missing(name, "is not installed")
    try:
        ran = run_helper(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_s,
        )
    except OSError as error:
        return f"{name}: {error}"
    except subprocess.TimeoutExpired:
        return f"{name} did not end within {within_s:.0f} s"
    return first_line(ran.stderr, noise=noise) if ran.returncode else None


PERF_REMEDY = "install perf (Debian: linux-perf) of this kernel, 5.10 or newer, run as root"
WRITE_S, ANSWER_BYTES = 0.25, 64
_PERF_LOST = re.compile(rb"PERF_RECORD_LOST(?:_SAMPLES)? lost (\d+)")


def probe_perf() -> str | None:
    """Return why perf cannot record block events here, or None when it can."""
    with tempfile.TemporaryDirectory(prefix="tracekit-perf-") as folder:
        what = ("-a", "-e", f"block:block_{EVENTS[0]}", "--control=fd:0")
        command = ["perf", "record", "-q", "-B", *what, "-o", f"{folder}/perf.data", "true"]
        return probe_failure(command, within_s=PROBE_S)


def _own(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class Perf(ProgramSource):
    """Record disks and their partitions with perf."""

    name = "perf"

    def __init__(self, disks: Sequence[Path], spool: Path, *, buffer_kib: int) -> None:
        """Prepare to record `disks`, folders in /sys/block, into files in the folder `spool`."""
        self._filter = " || ".join(f"dev == {number}" for number in disk_numbers(disks))
        self._buffer_kib = buffer_kib
        program = Program("perf record", spool / "perf.log", remedy=PERF_REMEDY)
        super().__init__(program, spool / "perf.data")
        self._asks = self._answers = -1
        self._due_s = 0.0

    copies = 1.5

    def start(self) -> dict[str, Any]:
        """Begin to record; raise TracekitError when perf does not."""
        events = ",".join(f"block:block_{name}" for name in known_events())
        what = ("-a", "-k", "mono", "-m", f"{self._buffer_kib}K", "-e", events)
        command = ["perf", "record", "-q", "-B", *what, "--filter", self._filter]
        theirs, self._asks = os.pipe()
        self._answers, answers = os.pipe()
        words = (f"--control=fd:{theirs},{answers}", "-o", "-", "--", "cat")
        try:
            with open(self._data, "xb", opener=_own) as data:
                fds = (theirs, answers)
                self._program.launch([*command, *words], pipes=True, output=data, pass_fds=fds)
        finally:
            os.close(theirs)
            os.close(answers)
        self._ask_to_write()
        if not os.read(self._answers, ANSWER_BYTES):
            raise self._program.failure("perf record did not begin")
        os.set_blocking(self._answers, False)
        self._ask_to_write()
        return {}

    def _ask_to_write(self) -> None:
        """Let perf write what it has: by itself it writes a buffer when that is half full."""
        self._due_s = time.monotonic() + WRITE_S
        os.write(self._asks, b"ping\n")

    def drain(self) -> int:
        """Return the bytes that perf wrote since the last call."""
        moved = super().drain()
        if time.monotonic() >= self._due_s:
            with suppress(OSError):  # none yet, and then it is not asked again
                os.read(self._answers, ANSWER_BYTES)
                self._ask_to_write()
        return moved

    def close(self) -> None:
        """End perf, whatever state it is in."""
        super().close()
        for number in (self._asks, self._answers):
            if number >= 0:
                os.close(number)
        self._asks = self._answers = -1

    def stop(self) -> Script:
        """Stop recording; perf writes the rest. Raise TracekitError when it fails."""
        self._program.stop()
        return Script(self._data, self._program.log)

    @staticmethod
    def recorded_in(folder: Path) -> Script:
        """Return what is recorded in a folder, however that ended."""
        return Script(folder / "perf.data", folder / "perf.log", is_cut=True)


@dataclass
class Script:
    """What perf recorded, to be kept as the text of perf script."""

    data: Path
    log: Path
    is_cut: bool = False
    """perf did not end in order: what can be read is all there is."""
    counts: Counter[str] = field(default_factory=Counter)
    """Of `records`, `own` requests and `lost` records."""

    def write(self, folder: CaptureFolder) -> CaptureFiles:
        """Write NAME.perf.txt and layout.json into `folder`."""
        file = f"{folder.name}.perf.txt"
        with folder.writer(file) as target:
            self._write_text(target, folder.own_pid)
        found = CaptureFiles(
            files=(folder.packed(file),),
            records=self.counts["records"],
            own_requests=self.counts["own"],
            dropped=self.counts["lost"],
        )
        return folder.finish(found, own_pid=folder.own_pid)

    def _write_text(self, target: BinaryIO, own_pid: int) -> None:
        own = re.compile(rb" %d \[\d+\] +[\d.]+: +block:block_bio_queue:" % own_pid)
        try:
            for lines in self._whole_lines():
                target.write(lines)
                lost = _PERF_LOST.findall(lines)
                self.counts["records"] += lines.count(b"\n") - len(lost)
                self.counts["lost"] += sum(map(int, lost))
                self.counts["own"] += len(own.findall(lines))
        except TracekitError:
            if not self.is_cut:
                raise
        if self.is_cut and not self.counts["records"]:
            raise NothingRecordedError("perf had written no event")

    def _whole_lines(self) -> Iterator[bytes]:
        """Yield what perf script prints, whole lines at a time, and last what has no line end."""
        command = ["perf", "script", "--ns", "--show-lost-events", "-i", "-"]
        plain = {"LC_ALL": "C"}
        with (
            self.log.open("wb") as log,
            self.data.open("rb") as recorded,
            start_helper(
                command, variables=plain, stdin=recorded, stdout=subprocess.PIPE, stderr=log
            ) as running,
        ):
            rest = b""
            while data := pipe_of(running.stdout).read(CHUNK_BYTES):
                whole, newline, rest = (rest + data).rpartition(b"\n")
                yield whole + newline
            yield rest
        if running.returncode != 0:
            reason = first_line(self.log.read_text(errors="replace"))
            message = f"perf script cannot read what perf recorded: {reason}"
            raise TracekitError(message, hint=PERF_REMEDY)
