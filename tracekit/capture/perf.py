"""perf(1) on the kernel's block events: for where the tracer `blk` is missing or taken.

What is kept is the text of perf script, which outlives the version of perf that wrote perf.data.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from tracekit.capture.source import (
    EVENTS,
    Program,
    ProgramSource,
    TextRecording,
    disk_numbers,
    failed_try,
    known_events,
)

REMEDY = "install perf (Debian: linux-perf) of this kernel, run as root"
PROBE_S = 20.0
_LOST = re.compile(rb"PERF_RECORD_LOST(?:_SAMPLES)? lost (\d+)")


def probe() -> str | None:
    """Return why perf cannot record block events here, or None when it can."""
    with tempfile.TemporaryDirectory(prefix="tracekit-perf-") as folder:
        what = ("-a", "-e", f"block:block_{EVENTS[0]}", "-o", f"{folder}/perf.data")
        return failed_try(["perf", "record", "-q", "-B", *what, "true"], within_s=PROBE_S)


class Perf(ProgramSource):
    """Record disks and their partitions with perf."""

    name = "perf"

    def __init__(self, disks: Sequence[Path], spool: Path, *, buffer_kib: int) -> None:
        """Prepare to record `disks`, folders in /sys/block, into files in the folder `spool`."""
        self._filter = " || ".join(f"dev == {number}" for number in disk_numbers(disks))
        self._log, self._buffer_kib = spool / "perf.log", buffer_kib
        super().__init__(Program("perf record", self._log, remedy=REMEDY), spool / "perf.data")

    def start(self) -> None:
        """Begin to record; raise TracekitError when perf does not."""
        events = ",".join(f"block:block_{name}" for name in known_events())
        what = ("-a", "-k", "mono", "-m", f"{self._buffer_kib}K", "-e", events)
        command = ["perf", "record", "-q", "-B", *what, "--filter", self._filter]
        self._program.start([*command, "-o", str(self._data), "--", "cat"])

    def stop(self) -> Script:
        """Stop recording; perf writes the rest. Raise TracekitError when it fails."""
        self._program.stop()
        return Script(self._data, self._log)


class Script(TextRecording):
    """What perf recorded: the text is that of perf script."""

    def _write_text(self, target: BinaryIO) -> None:
        command = ["perf", "script", "--ns", "--show-lost-events", "-i", str(self.data)]
        failure = "perf script cannot read what perf recorded"
        for lines in self._whole_lines(command, failure, REMEDY):
            target.write(lines)
            lost = _LOST.findall(lines)
            self.counts["records"] += lines.count(b"\n") - len(lost)
            self.counts["lost"] += sum(map(int, lost))
            self._count_own(lines)
