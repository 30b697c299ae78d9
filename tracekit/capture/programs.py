"""Sources of block events that run a program: what they share, perf(1) and bpftrace(8).

A source has `start`, `drain` to be called often, `stop` and, in any case, `close`; `stop` returns a
recording, which writes the capture's files. perf is for where the tracer `blk` is missing or taken,
bpftrace for where only BPF is allowed or installed. What is kept is the text of perf script, which
outlives the version of perf that wrote perf.data, and which one native decoder reads.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO

from msgspec import UNSET

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
        variables: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start it, with pipes as its input and output or else without an input."""
        with self.log.open("wb") as log:
            self._running = start_helper(
                command,
                variables=variables,
                stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipes else log,
                stderr=log,
                umask=0o077,
                process_group=0,
            )
        return self._running

    def start(self, command: Sequence[str], *, variables: Mapping[str, str] | None = None) -> None:
        """Start it and wait until it answers a line; raise TracekitError when it ends instead."""
        running = self.launch(command, pipes=True, variables=variables)
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


@dataclass
class TextRecording(ABC):
    """What a program recorded, to be kept as text of perf script."""

    data: Path
    log: Path
    missed_at_most: int | None = None
    """Events of all disks that the kernel did not show the program; None: it shows all."""
    counts: Counter[str] = field(default_factory=Counter)
    """Of `records`, `own` requests, `lost` records and `foreign` bytes."""

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
            foreign_bytes=self.counts["foreign"],
            missed_at_most=self.missed_at_most or 0,
        )
        missed = UNSET if self.missed_at_most is None else self.missed_at_most
        return folder.finish(found, own_pid=folder.own_pid, missed_at_most=missed)

    @abstractmethod
    def _write_text(self, target: BinaryIO, own_pid: int) -> None:
        """Write what was recorded as text of perf script, and count it."""

    def _count_own(self, lines: bytes, own_pid: int) -> None:
        """Count the requests that the capture itself queued."""
        own = rb" %d \[\d+\] +[\d.]+: +block:block_bio_queue:" % own_pid
        self.counts["own"] += len(re.findall(own, lines))

    def _whole_lines(self, command: Sequence[str], failure: str, hint: str = "") -> Iterator[bytes]:
        """Yield what a command prints, whole lines at a time, and last what has no line end.

        Raise TracekitError that begins with `failure` when it fails.
        """
        plain = {"LC_ALL": "C"}
        with (
            self.log.open("wb") as log,
            start_helper(command, variables=plain, stdout=subprocess.PIPE, stderr=log) as running,
        ):
            rest = b""
            while data := pipe_of(running.stdout).read(CHUNK_BYTES):
                whole, newline, rest = (rest + data).rpartition(b"\n")
                yield whole + newline
            yield rest
        if running.returncode != 0:
            reason = first_line(self.log.read_text(errors="replace"))
            raise TracekitError(f"{failure}: {reason}", hint=hint)


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


PERF_REMEDY = "install perf (Debian: linux-perf) of this kernel, run as root"
_PERF_LOST = re.compile(rb"PERF_RECORD_LOST(?:_SAMPLES)? lost (\d+)")


def probe_perf() -> str | None:
    """Return why perf cannot record block events here, or None when it can."""
    with tempfile.TemporaryDirectory(prefix="tracekit-perf-") as folder:
        what = ("-a", "-e", f"block:block_{EVENTS[0]}", "-o", f"{folder}/perf.data")
        return probe_failure(["perf", "record", "-q", "-B", *what, "true"], within_s=PROBE_S)


class Perf(ProgramSource):
    """Record disks and their partitions with perf."""

    name = "perf"

    def __init__(self, disks: Sequence[Path], spool: Path, *, buffer_kib: int) -> None:
        """Prepare to record `disks`, folders in /sys/block, into files in the folder `spool`."""
        self._filter = " || ".join(f"dev == {number}" for number in disk_numbers(disks))
        self._buffer_kib = buffer_kib
        program = Program("perf record", spool / "perf.log", remedy=PERF_REMEDY)
        super().__init__(program, spool / "perf.data")

    copies = 1.5

    def start(self) -> dict[str, Any]:
        """Begin to record; raise TracekitError when perf does not."""
        events = ",".join(f"block:block_{name}" for name in known_events())
        what = ("-a", "-k", "mono", "-m", f"{self._buffer_kib}K", "-e", events)
        command = ["perf", "record", "-q", "-B", *what, "--filter", self._filter]
        self._program.start([*command, "-o", str(self._data), "--", "cat"])
        return {}

    def stop(self) -> Script:
        """Stop recording; perf writes the rest. Raise TracekitError when it fails."""
        self._program.stop()
        return Script(self._data, self._program.log)

    @staticmethod
    def recorded_in(folder: Path) -> Script:
        """Return what is recorded in a folder, however that ended."""
        return Script(folder / "perf.data", folder / "perf.log", is_cut=True)


@dataclass
class Script(TextRecording):
    """What perf recorded: the text is that of perf script."""

    is_cut: bool = False
    """perf did not end in order: what can be read is all there is."""

    def _write_text(self, target: BinaryIO, own_pid: int) -> None:
        command = ["perf", "script", "--ns", "--show-lost-events", "-i", str(self.data)]
        failure = "perf script cannot read what perf recorded"
        try:
            for lines in self._whole_lines(command, failure, PERF_REMEDY):
                target.write(lines)
                lost = _PERF_LOST.findall(lines)
                self.counts["records"] += lines.count(b"\n") - len(lost)
                self.counts["lost"] += sum(map(int, lost))
                self._count_own(lines, own_pid)
        except TracekitError:
            if not self.is_cut:
                raise
        if self.is_cut and not self.counts["records"]:
            raise NothingRecordedError("perf had written no event")


BPFTRACE_REMEDY = "install bpftrace, run as root on a kernel with CONFIG_BPF_EVENTS"
NOISE = "RLIMIT_MEMLOCK"
"""It may not lock memory, says so, and does without."""
PAGE_KIB = 4
SORT_MEMORY = "64M"
KEY_DIGITS = 20
_PLACE = ("%lu + %u", "args->sector, args->nr_sector")
_NAME, _ERROR = ("[%s]", "args->comm"), ("[%d]", "args->error")
_ORIGIN = ("<- (%d,%d) %lu", "args->old_dev >> 20, args->old_dev & 1048575, args->old_sector")
_SPLIT = ("%lu / %lu", "args->sector, args->new_sector")
_BYTES, _NO_COMMAND = ("%u ()", "args->bytes"), ("()", "")
_OF_BIO, _OF_REQUEST = (_PLACE, _NAME), (_BYTES, _PLACE, _NAME)
_BODIES = {
    **dict.fromkeys(("bio_queue", "bio_backmerge", "bio_frontmerge", "getrq"), _OF_BIO),
    **dict.fromkeys(("rq_insert", "rq_issue", "rq_merge"), _OF_REQUEST),
    "rq_requeue": (_NO_COMMAND, _PLACE, ("[0]", "")),
    "rq_complete": (_NO_COMMAND, _PLACE, _ERROR),
    "bio_complete": (_PLACE, _ERROR),
    "bio_remap": (_PLACE, _ORIGIN),
    "split": (_SPLIT, _NAME),
}
"""What stands behind the kind of each event: pieces of a format and what goes into them."""
# One reading of the clock for a line: it is the key by which lines of all CPUs are put in order.
_HEAD = f"%0{KEY_DIGITS}lu%s %d [%03d] %lu.%09lu: block:block_"
_HEAD_VALUES = "$t, comm, tid, cpu, $t / 1000000000, $t % 1000000000"
_KIND = (": %d,%d %s ", "args->dev >> 20, args->dev & 1048575, args->rwbs")
_EVENT = re.compile(rb"^\d{%d}(.*\n)" % KEY_DIGITS, re.MULTILINE)
_LOST = re.compile(rb"^Lost (\d+) events$", re.MULTILINE)
_MISSED = re.compile(r"^recursion_misses:\s*(\d+)$", re.MULTILINE)
_OWN_WORDS = re.compile(rb"^(Lost \d+ events|Attaching \d+ probes?\.\.\.|)\n", re.MULTILINE)


def probe_bpftrace() -> str | None:
    """Return why bpftrace cannot record block events here, or None when it can."""
    command = ["bpftrace", "-e", "tracepoint:block:block_bio_queue { }", "-c", _path_of("true")]
    return probe_failure(command, within_s=PROBE_S, noise=NOISE)


class Bpftrace(ProgramSource):
    """Record disks and their partitions with bpftrace."""

    name = "bpftrace"

    def __init__(self, disks: Sequence[Path], spool: Path, *, buffer_kib: int) -> None:
        """Prepare to record `disks`, folders in /sys/block, into files in the folder `spool`."""
        self._numbers = disk_numbers(disks)
        self._buffer_kib, self._script = buffer_kib, spool / "bpftrace.bt"
        log = spool / "bpftrace.log"
        program = Program("bpftrace", log, remedy=BPFTRACE_REMEDY, noise=NOISE)
        super().__init__(program, spool / "bpftrace.text")

    copies = 2.0

    def start(self) -> dict[str, Any]:
        """Begin to record; raise TracekitError when bpftrace does not."""
        self._script.write_text(script(self._numbers, known_events()))
        # Whole pages, a power of two.
        pages = 1 << (self._buffer_kib // PAGE_KIB).bit_length() - 1
        command = ["bpftrace", "-B", "full", "-o", str(self._data), "-c", _path_of("cat")]
        command.append(str(self._script))
        self._program.start(command, variables={"BPFTRACE_PERF_RB_PAGES": str(pages)})
        return {}

    def stop(self) -> Lines:
        """Stop recording; bpftrace writes the rest. Raise TracekitError when it fails."""
        missed = missed_runs(Path(f"/proc/{self._program.check().pid}/fdinfo"))
        self._program.stop()
        return Lines(self._data, self._program.log, missed)

    @staticmethod
    def recorded_in(folder: Path) -> Lines:
        """Return what is recorded in a folder, however that ended."""
        return Lines(folder / "bpftrace.text", folder / "bpftrace.log")


def script(numbers: list[int], events: list[str]) -> str:
    """Return the program in bpftrace's language that prints these events of these devices."""
    is_ours = " || ".join(f"args->dev == {number}" for number in numbers)
    probes = []
    for event in events:
        pieces = _BODIES[event]
        text = f"{_HEAD}{event}{_KIND[0]}" + " ".join(form for form, _ in pieces)
        values = ", ".join([_HEAD_VALUES, _KIND[1], *(value for _, value in pieces if value)])
        action = f'$t = nsecs; printf("{text}\\n", {values});'
        probes.append(f"tracepoint:block:block_{event} /{is_ours}/ {{ {action} }}\n")
    return "".join(probes)


def missed_runs(descriptors: Path) -> int:
    """Return how many events the kernel passed over since the BPF programs of a process began.

    It runs no second program on a CPU that is in one: not for a completion that interrupts it.
    Those of other disks, on which the programs look as well, are among them. Kernels before 6.3
    do not count. `descriptors` is the process's folder fdinfo.
    """
    texts = [path.read_text(errors="replace") for path in sorted(descriptors.iterdir())]
    return sum(int(count) for text in texts for count in _MISSED.findall(text))


class Lines(TextRecording):
    """What bpftrace printed, CPU by CPU as it came: the text is in the order of time."""

    def _write_text(self, target: BinaryIO, own_pid: int) -> None:
        """Sort the lines by their keys, in bounded memory."""
        memory = ("-S", SORT_MEMORY, "-T", str(self.data.parent))
        command = ["sort", "-s", "-k", f"1.1,1.{KEY_DIGITS}", *memory, str(self.data)]
        for lines in self._whole_lines(command, "what bpftrace printed cannot be sorted"):
            target.write(events := self._without_keys(lines))
            self._count_own(events, own_pid)
        if self.counts["lost"]:
            target.write(b"[LOST %d EVENTS] by bpftrace\n" % self.counts["lost"])

    def _without_keys(self, lines: bytes) -> bytes:
        """Return the events without their keys; what else bpftrace printed is counted."""
        found = _EVENT.findall(lines)
        events = b"".join(found)
        self.counts["records"] += len(found)
        if len(events) + KEY_DIGITS * len(found) < len(lines):
            others = _EVENT.sub(b"", lines)
            self.counts["lost"] += sum(map(int, _LOST.findall(others)))
            self.counts["foreign"] += len(_OWN_WORDS.sub(b"", others))
        return events


def _path_of(program: str) -> str:
    """Return a program's whole path: bpftrace takes no name that PATH has twice."""
    return find_helper(program) or program
