"""perf(1) on the kernel's block events: for where the tracer `blk` is missing or taken.

What is kept is the text of perf script, which outlives the version of perf that wrote perf.data.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tracekit.capture.keep import SUFFIXES, Kept, packing_writer
from tracekit.capture.tracefs import tracefs_folder
from tracekit.errors import TracekitError
from tracekit.store import write_json

REMEDY = "install perf (Debian: linux-perf) of this kernel, run as root"
PROBE_S = 20.0
STOP_S = 120.0
READ_BYTES = 1 << 20
_EVENTS = (
    *("bio_queue", "bio_remap", "bio_backmerge", "bio_frontmerge", "bio_complete", "split"),
    *("getrq", "rq_insert", "rq_issue", "rq_merge", "rq_requeue", "rq_complete"),
)
# A command that says that recording has begun, and ends when its input does: with this process,
# however that ends. So no perf is left behind, even after SIGKILL.
_WORKLOAD = ("sh", "-c", "echo; exec cat >/dev/null")
_LOST = re.compile(rb"PERF_RECORD_LOST(?:_SAMPLES)? lost (\d+)")


def probe() -> str | None:
    """Return why perf cannot record block events here, or None when it can."""
    if shutil.which("perf") is None:
        return "perf is not installed"
    with tempfile.TemporaryDirectory(prefix="tracekit-perf-") as folder:
        event = ("-e", f"block:block_{_EVENTS[0]}")
        command = ["perf", "record", "-q", "-B", "-a", *event, "-o", f"{folder}/perf.data", "true"]
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=PROBE_S
            )
        except subprocess.TimeoutExpired:
            return f"perf record did not end within {PROBE_S:.0f} s"
    return _first_line(ran.stderr) if ran.returncode != 0 else None


class Perf:
    """Record one disk and its partitions with perf; a `Source`."""

    name = "perf"

    def __init__(self, disk: Path, spool: Path, *, buffer_kib: int) -> None:
        """Prepare to record `disk`, a folder in /sys/block, into files in the folder `spool`."""
        self._filter = " || ".join(f"dev == {number}" for number in _numbers(disk))
        self._data, self._log = spool / "perf.data", spool / "perf.log"
        self._buffer_kib = buffer_kib
        self._perf: subprocess.Popen[bytes] | None = None
        self._seen_bytes = 0

    def start(self) -> None:
        """Begin to record; raise TracekitError when perf does not."""
        events = ",".join(f"block:block_{name}" for name in _EVENTS if _exists(name))
        what = ("-a", "-k", "mono", "-m", f"{self._buffer_kib}K", "-e", events)
        command = ["perf", "record", "-q", "-B", *what, "--filter", self._filter]
        with self._log.open("wb") as log:
            self._perf = subprocess.Popen(
                [*command, "-o", str(self._data), "--", *_WORKLOAD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                process_group=0,
            )
        if not _pipe(self._perf.stdout).readline():
            raise self._failure("perf record did not begin")

    def drain(self) -> int:
        """Return the bytes that perf wrote since the last call."""
        if self._perf is None or self._perf.poll() is not None:
            raise self._failure("perf record ended by itself")
        before, self._seen_bytes = self._seen_bytes, _size(self._data)
        return self._seen_bytes - before

    def stop(self) -> Script:
        """Stop recording; perf writes the rest. Raise TracekitError when it fails."""
        running = self._perf
        if running is None:
            raise self._failure("perf record was not started")
        _pipe(running.stdin).close()
        try:
            status = running.wait(STOP_S)
        except subprocess.TimeoutExpired:
            raise self._failure(f"perf record did not end within {STOP_S:.0f} s") from None
        if status != 0:
            raise self._failure(f"perf record ended with status {status}")
        return Script(self._data, self._log)

    def close(self) -> None:
        """End perf, whatever state it is in; its events in the kernel go with it."""
        running = self._perf
        if running is None:
            return
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        for pipe in (running.stdin, running.stdout):
            if pipe is not None:
                pipe.close()

    def _failure(self, what: str) -> TracekitError:
        told = _first_line(self._log.read_text(errors="replace") if self._log.exists() else "")
        return TracekitError(f"{what}: {told}", hint=REMEDY)


@dataclass
class Script:
    """What perf recorded, to be kept as the text of perf script; a `Recorded`."""

    data: Path
    log: Path
    counts: Counter[str] = field(default_factory=Counter)

    def keep(self, folder: Path, *, name: str, layout: dict[str, Any], compress: str) -> Kept:
        """Write NAME.perf.txt and layout.json into `folder` and remove the spool files."""
        file = f"{name}.perf.txt{SUFFIXES[compress]}"
        with packing_writer(folder / file, compress) as target:
            self._print(target)
        self.data.unlink()
        self.log.unlink()
        own = {"records": self.counts["records"], "own_requests": self.counts["own"]}
        about = {**layout["capture"], **own, "own_pid": os.getpid(), "foreign_bytes": 0}
        loss = {"overrun": 0, "dropped": self.counts["lost"]}
        content = {**layout, "processes": {}, "loss": loss, "capture": about}
        write_json(folder / "layout.json", content)
        return Kept(**own, **loss, foreign_bytes=0, files=(file,))

    def _print(self, target: Any) -> None:
        """Write what perf script prints; raise TracekitError when it fails."""
        command = ["perf", "script", "--ns", "--show-lost-events", "-i", str(self.data)]
        rest = b""
        with (
            self.log.open("wb") as log,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as running,
        ):
            pipe = _pipe(running.stdout)
            while data := pipe.read(READ_BYTES):
                target.write(data)
                whole, newline, tail = (rest + data).rpartition(b"\n")
                self._count(whole + newline)
                rest = tail
        if running.returncode != 0:
            told = _first_line(self.log.read_text(errors="replace"))
            raise TracekitError(f"perf script cannot read what perf recorded: {told}", hint=REMEDY)

    def _count(self, lines: bytes) -> None:
        lost = _LOST.findall(lines)
        self.counts["records"] += lines.count(b"\n") - len(lost)
        self.counts["lost"] += sum(map(int, lost))
        own = rb" %d \[\d+\] +[\d.]+: +block:block_bio_queue:" % os.getpid()
        self.counts["own"] += len(re.findall(own, lines))


def _numbers(disk: Path) -> list[int]:
    """Return the device numbers of the disk and its partitions, as the kernel's events have them.

    An event of a partition's request may carry the partition's number (include/linux/kdev_t.h:
    major << 20 | minor).
    """
    files = [disk / "dev", *sorted(disk.glob(f"{disk.name}*/dev"))]
    pairs = [file.read_text().split(":") for file in files]
    return [int(major) << 20 | int(minor) for major, minor in pairs]


def _exists(event: str) -> bool:
    return (tracefs_folder() / f"events/block/block_{event}").is_dir()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("the process was started without this pipe")
    return pipe


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "it gave no reason"
