"""bpftrace(8) on the kernel's block events: for where only BPF is allowed or installed.

What is kept are lines as perf script prints them, which one native decoder reads.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from tracekit.capture.source import (
    Program,
    ProgramSource,
    TextRecording,
    disk_numbers,
    failed_try,
    known_events,
)

REMEDY = "install bpftrace, run as root on a kernel with CONFIG_BPF_EVENTS"
NOISE = "RLIMIT_MEMLOCK"
"""It may not lock memory, says so, and does without."""
PROBE_S = 30.0
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


def probe() -> str | None:
    """Return why bpftrace cannot record block events here, or None when it can."""
    command = ["bpftrace", "-e", "tracepoint:block:block_bio_queue { }", "-c", _path_of("true")]
    return failed_try(command, within_s=PROBE_S, noise=NOISE)


class Bpftrace(ProgramSource):
    """Record disks and their partitions with bpftrace."""

    name = "bpftrace"

    def __init__(self, disks: Sequence[Path], spool: Path, *, buffer_kib: int) -> None:
        """Prepare to record `disks`, folders in /sys/block, into files in the folder `spool`."""
        self._numbers = disk_numbers(disks)
        self._buffer_kib = buffer_kib
        self._log, self._script = spool / "bpftrace.log", spool / "bpftrace.bt"
        program = Program("bpftrace", self._log, remedy=REMEDY, noise=NOISE)
        super().__init__(program, spool / "bpftrace.text")

    def start(self) -> None:
        """Begin to record; raise TracekitError when bpftrace does not."""
        self._script.write_text(script(self._numbers, known_events()))
        # Whole pages, a power of two.
        pages = 1 << (self._buffer_kib // PAGE_KIB).bit_length() - 1
        command = ["bpftrace", "-B", "full", "-o", str(self._data), "-c", _path_of("cat")]
        command.append(str(self._script))
        self._program.start(command, variables={"BPFTRACE_PERF_RB_PAGES": str(pages)})

    def stop(self) -> Lines:
        """Stop recording; bpftrace writes the rest. Raise TracekitError when it fails."""
        missed = missed_runs(Path(f"/proc/{self._program.check().pid}/fdinfo"))
        self._program.stop()
        self._script.unlink()
        return Lines(self._data, self._log, missed)


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

    def _write_text(self, target: BinaryIO) -> None:
        """Sort the lines by their keys, in bounded memory."""
        memory = ("-S", SORT_MEMORY, "-T", str(self.data.parent))
        command = ["sort", "-s", "-k", f"1.1,1.{KEY_DIGITS}", *memory, str(self.data)]
        for lines in self._whole_lines(command, "what bpftrace printed cannot be sorted"):
            target.write(self._without_keys(lines))
        if self.counts["lost"]:
            target.write(b"[LOST %d EVENTS] by bpftrace\n" % self.counts["lost"])

    def _without_keys(self, lines: bytes) -> bytes:
        """Return the events without their keys; what else bpftrace printed is counted."""
        found = _EVENT.findall(lines)
        events = b"".join(found)
        self.counts["records"] += len(found)
        self._count_own(events)
        if len(events) + KEY_DIGITS * len(found) < len(lines):
            others = _EVENT.sub(b"", lines)
            self.counts["lost"] += sum(map(int, _LOST.findall(others)))
            self.counts["foreign"] += len(_OWN_WORDS.sub(b"", others))
        return events


def _path_of(program: str) -> str:
    """Return a program's whole path: bpftrace takes no name that PATH has twice."""
    return shutil.which(program) or program
