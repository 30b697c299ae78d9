"""perf(1) on the kernel's block events: for where the tracer `blk` is missing or taken.

What is kept is the text of perf script, which outlives the version of perf that wrote perf.data.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit.capture.recording import SUFFIXES, CaptureFiles, packing_writer
from tracekit.capture.source import (
    EVENTS,
    Program,
    disk_numbers,
    first_line,
    known_events,
    pipe_of,
    size_of,
)
from tracekit.errors import TracekitError
from tracekit.store import write_json

REMEDY = "install perf (Debian: linux-perf) of this kernel, run as root"
PROBE_S = 20.0
READ_BYTES = 1 << 20
_LOST = re.compile(rb"PERF_RECORD_LOST(?:_SAMPLES)? lost (\d+)")


def probe() -> str | None:
    """Return why perf cannot record block events here, or None when it can."""
    if shutil.which("perf") is None:
        return "perf is not installed"
    with tempfile.TemporaryDirectory(prefix="tracekit-perf-") as folder:
        event = ("-e", f"block:block_{EVENTS[0]}")
        command = ["perf", "record", "-q", "-B", "-a", *event, "-o", f"{folder}/perf.data", "true"]
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=PROBE_S
            )
        except subprocess.TimeoutExpired:
            return f"perf record did not end within {PROBE_S:.0f} s"
    return first_line(ran.stderr) if ran.returncode != 0 else None


class Perf:
    """Record disks and their partitions with perf; a `Source`."""

    name = "perf"

    def __init__(self, disks: Sequence[Path], spool: Path, *, buffer_kib: int) -> None:
        """Prepare to record `disks`, folders in /sys/block, into files in the folder `spool`."""
        self._filter = " || ".join(f"dev == {number}" for number in disk_numbers(disks))
        self._data, self._log = spool / "perf.data", spool / "perf.log"
        self._buffer_kib = buffer_kib
        self._program = Program("perf record", self._log, remedy=REMEDY)
        self._seen_bytes = 0

    def start(self) -> None:
        """Begin to record; raise TracekitError when perf does not."""
        events = ",".join(f"block:block_{name}" for name in known_events())
        what = ("-a", "-k", "mono", "-m", f"{self._buffer_kib}K", "-e", events)
        command = ["perf", "record", "-q", "-B", *what, "--filter", self._filter]
        self._program.start([*command, "-o", str(self._data), "--", "cat"])

    def drain(self) -> int:
        """Return the bytes that perf wrote since the last call."""
        self._program.check()
        before, self._seen_bytes = self._seen_bytes, size_of(self._data)
        return self._seen_bytes - before

    def stop(self) -> Script:
        """Stop recording; perf writes the rest. Raise TracekitError when it fails."""
        self._program.stop()
        return Script(self._data, self._log)

    def close(self) -> None:
        """End perf, whatever state it is in; its events in the kernel go with it."""
        self._program.close()


@dataclass
class Script:
    """What perf recorded, to be kept as the text of perf script; a `Recorded`."""

    data: Path
    log: Path
    counts: Counter[str] = field(default_factory=Counter)

    def keep(
        self, folder: Path, *, name: str, layout: dict[str, Any], compress: str
    ) -> CaptureFiles:
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
        return CaptureFiles(**own, **loss, foreign_bytes=0, files=(file,), disks_dropped=())

    def _print(self, target: Any) -> None:
        """Write what perf script prints; raise TracekitError when it fails."""
        command = ["perf", "script", "--ns", "--show-lost-events", "-i", str(self.data)]
        rest = b""
        with (
            self.log.open("wb") as log,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as running,
        ):
            pipe = pipe_of(running.stdout)
            while data := pipe.read(READ_BYTES):
                target.write(data)
                whole, newline, tail = (rest + data).rpartition(b"\n")
                self._count(whole + newline)
                rest = tail
        if running.returncode != 0:
            told = first_line(self.log.read_text(errors="replace"))
            raise TracekitError(f"perf script cannot read what perf recorded: {told}", hint=REMEDY)

    def _count(self, lines: bytes) -> None:
        lost = _LOST.findall(lines)
        self.counts["records"] += lines.count(b"\n") - len(lost)
        self.counts["lost"] += sum(map(int, lost))
        own = rb" %d \[\d+\] +[\d.]+: +block:block_bio_queue:" % os.getpid()
        self.counts["own"] += len(re.findall(own, lines))
