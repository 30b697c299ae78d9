"""What every source of block events offers, and the program that records them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from tracekit.capture.recording import CaptureFiles
from tracekit.capture.tracefs import tracefs_folder
from tracekit.errors import TracekitError


class Recorded(Protocol):
    """What a source recorded, in spool files of the capture's folder."""

    def keep(
        self, folder: Path, *, name: str, layout: dict[str, Any], compress: str
    ) -> CaptureFiles:
        """Write the capture's files and layout.json into `folder` and remove the spool files."""


class Source(Protocol):
    """A way to record block events: `start`, `drain` often, `stop`, and `close` in any case."""

    name: str

    def start(self) -> None:
        """Begin to record; every setting is changed through the session's `Settings`."""

    def drain(self) -> int:
        """Move what the kernel holds to the spool files; return the bytes moved."""

    def stop(self) -> Recorded:
        """Stop recording and move the rest."""

    def close(self) -> None:
        """Let go of everything in the kernel, whatever state the source is in."""


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


class Program:
    """One run of it; it answers a line on stdout when it has begun to record."""

    def __init__(self, name: str, log: Path, *, remedy: str, noise: str = "") -> None:
        """Prepare to run `name`, whose complaints go to the file `log`; `noise` marks vain ones."""
        self._name = name
        self._log = log
        self._remedy = remedy
        self._noise = noise
        self._running: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str], *, variables: Mapping[str, str] | None = None) -> None:
        """Start it and wait for its answer; raise TracekitError when it ends instead."""
        with self._log.open("wb") as log:
            self._running = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **(variables or {})},
                process_group=0,
            )
        question = pipe_of(self._running.stdin)
        try:
            question.write(b"\n")
            question.flush()
            has_begun = bool(pipe_of(self._running.stdout).readline())
        except BrokenPipeError:
            has_begun = False
        if not has_begun:
            raise self.failure(f"{self._name} did not begin")

    def check(self) -> int:
        """Return its process number; raise TracekitError when it does not run."""
        if self._running is None or self._running.poll() is not None:
            raise self.failure(f"{self._name} ended by itself")
        return self._running.pid

    def stop(self) -> None:
        """End its input and wait until it has written the rest."""
        running = self._running
        if running is None:
            raise self.failure(f"{self._name} was not started")
        pipe_of(running.stdin).close()
        try:
            status = running.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise self.failure(f"{self._name} did not end within {STOP_S:.0f} s") from None
        if status != 0:
            raise self.failure(f"{self._name} ended with status {status}")

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

    def failure(self, what: str) -> TracekitError:
        """Return the error that says what went wrong, with the program's own first words."""
        said = self._log.read_text(errors="replace") if self._log.exists() else ""
        told = first_line(said, noise=self._noise)
        if os.statvfs(self._log.parent).f_bavail > 0:
            return TracekitError(f"{what}: {told}", hint=self._remedy)
        return TracekitError(
            f"{what}: no space is left on the file system of {self._log.parent.parent}",
            hint="free some space, or choose an --output on another file system",
        )


def pipe_of(pipe: IO[bytes] | None) -> IO[bytes]:
    """Return a pipe of a process; raise ValueError when it was started without it."""
    if pipe is None:
        raise ValueError("the process was started without this pipe")
    return pipe


def size_of(path: Path) -> int:
    """Return how many bytes a file has; 0 when it is not there yet."""
    return path.stat().st_size if path.exists() else 0


def first_line(text: str, *, noise: str = "") -> str:
    """Return the first line that says something, and not `noise` if that is given."""
    lines = [line.strip() for line in text.splitlines()]
    told = [line for line in lines if line and not (noise and noise in line)]
    return told[0] if told else "it gave no reason"
