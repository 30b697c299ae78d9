"""Captures that are kept piece by piece: one after the other, or the last minutes only.

A piece is an unfinished capture of its own, NAME-0001.unfinished, which a process beside this one
finishes while this one goes on to record.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import UNSET, UnsetType, to_builtins
from msgspec.structs import replace

from tracekit.capture.blk_tracer import NAMES, Cut, spools_in
from tracekit.capture.disk_counters import CountersRead, counters_of
from tracekit.capture.live import Watch
from tracekit.capture.names import LEAST_LOOK_S, LOOK_PART, SEEN_NAME
from tracekit.capture.unfinished import Manifest, add_to_index, name_for
from tracekit.errors import TracekitError
from tracekit.helper_programs import start_tracekit
from tracekit.layout import DiskCounters
from tracekit.metadata import Record

PARTS = 8
"""The last minutes are kept in so many parts and one: the oldest goes as a whole."""
SPACE_PARTS = 4
"""Of the free space so much of it at most is for what is kept, as its files need space, too."""
CUTS = "cuts"
"""In a folder of records: a line for each time at which files began."""
LEAST_PAUSE_S = 1.0
"""Between two dumps of which a slow request is the reason."""
LATE_NS = 1_000_000
"""The kernel counts a request as in flight a moment after its issue is recorded."""
FINISH_S = 600.0


@dataclass(frozen=True)
class Keeping:
    """What of a recording is kept, and when."""

    rotate_bytes: float = math.inf
    rotate_s: float = math.inf
    last_s: float | None = None
    """Keep only so much, until something asks for it."""
    slow_ns: int | None = None
    """A request that takes longer asks for it."""
    most_bytes: float = math.inf

    @property
    def is_in_pieces(self) -> bool:
        """Whether the recording is cut."""
        return self.last_s is not None or min(self.rotate_bytes, self.rotate_s) < math.inf


@contextmanager
def asking_held(keeping: Keeping) -> Iterator[None]:
    """Let SIGUSR1 do nothing in captures in pieces while there is nothing that it can ask for."""
    if not keeping.is_in_pieces:
        yield
        return
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


class Cuttable(Protocol):
    """A source of which what comes next can go into new files."""

    @property
    def cuts(self) -> int:
        """The number of the files that are written to."""

    @property
    def clock_ahead_s(self) -> float:
        """How far the clock of the records is ahead of this process's."""

    def losses(self) -> dict[str, int]:
        """Return how many records were lost since recording began."""

    def counters(self) -> dict[str, int]:
        """Return what the kernel counts of its buffers."""

    def cut_counted(self) -> Cut | None:
        """Cut, between two readings of the disks' counters; None where it ends before that."""


@dataclass
class _Segment:
    """Files that were recorded at one time."""

    cut: int
    """Its number, from 1."""
    begin: list[CountersRead | str]
    """What the disks' counters were then."""
    lost: dict[str, int]
    """Losses until then."""
    began_s: float
    ended_s: float = math.inf
    oldest_s: float = math.inf
    """When the oldest request was issued that was open in it, or ended."""
    paths: list[Path] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.paths)


class _Begun(Record):
    """A line of the file CUTS."""

    cut: int
    before: dict[str, int]
    """What the kernel counted of its buffers."""
    begin: list[CountersRead | str]
    piece: int | UnsetType = UNSET


def begin_of_rest(folder: Path, manifest: Manifest) -> None:
    """Let a manifest of a killed capture know when what is left in its folder began."""
    # A kill can come while the files of a cut are deleted or moved, one CPU after the other.
    cuts = [{int(path.suffix[1:]) for path in paths} for paths in spools_in(folder).values()]
    first = min(set.intersection(*cuts), default=0) if cuts else 0
    with suppress(OSError, msgspec.MsgspecError):
        for line in (folder / CUTS).read_bytes().splitlines():
            found = msgspec.json.decode(line, type=_Begun)
            if found.cut == first:
                manifest.recorded |= {"before": found.before, "begin": to_builtins(found.begin)}
                manifest.summary.piece = found.piece


@dataclass(frozen=True)
class _Piece:
    """A piece that another process writes."""

    path: Path
    lost: int
    """Records lost while it was recorded."""
    writer: subprocess.Popen[str]


class Pieces:
    """The segments of a recording, and the pieces that were made of them."""

    def __init__(
        self,
        source: Cuttable,
        manifest: Manifest,
        *,
        output: Path,
        disks: Sequence[Path],
        keeping: Keeping,
        watch: Watch | None,
    ) -> None:
        self._source, self._manifest, self._output = source, manifest, output.absolute()
        self._disks, self._keeping, self._watch = disks, keeping, watch
        self._segments: list[_Segment] = []
        self._dumped_s = -math.inf
        self._pieces: list[_Piece] = []
        self._is_asked = self._is_slow = False
        self._current_bytes = 0
        self._number = 0
        self._shortest_s = math.inf
        """What was kept at least, where space left room for less than was to be kept."""

    def ask(self, *_signal: object) -> None:
        """Ask for what is kept, as the handler of a signal."""
        self._is_asked = True

    def begin(self, begin: list[CountersRead | str], lost: dict[str, int] | None = None) -> None:
        """Begin a segment, of which a recovery is to know what this knows."""
        lost = self._source.losses() if lost is None else lost
        segment = _Segment(self._source.cuts, begin, lost, time.monotonic())
        self._segments.append(segment)
        known = _Begun(segment.cut, self._source.counters(), begin, self._piece_number(segment))
        with suppress(OSError), (name_for(self._output) / CUTS).open("ab") as file:
            file.write(msgspec.json.encode(known) + b"\n")

    @property
    def kept_bytes(self) -> int:
        """The size of what is kept in this recording now."""
        return self._current_bytes + self.whole_bytes

    @property
    def whole_bytes(self) -> int:
        """The size of the segments before the current one."""
        return sum(one.size_bytes for one in self._segments)

    def look(self, moved_bytes: int) -> None:
        """After records were moved: cut, drop or write what it is time for."""
        self._current_bytes += moved_bytes
        keeping, now_s = self._keeping, time.monotonic()
        if self._watch is not None:
            self._watch_requests(self._watch)
        age_s = now_s - self._segments[-1].began_s
        if keeping.last_s is None:
            is_due = self._current_bytes >= keeping.rotate_bytes or age_s >= keeping.rotate_s
            if is_due and (end := self._cut()) is not None:
                self._write(end)
                self._segments = self._segments[-1:]
                self._drop_pieces()
            return
        if self._is_asked or (self._is_slow and now_s >= self._dumped_s + LEAST_PAUSE_S):
            if (end := self._cut()) is not None:
                self._is_asked, self._is_slow, self._dumped_s = False, False, now_s
                self._write(end)
        elif self._current_bytes and (
            age_s >= keeping.last_s / PARTS or self._current_bytes >= self._most_bytes() / PARTS
        ):
            self._cut()
        self._drop_segments(now_s)

    def _most_bytes(self) -> float:
        """Return how much can be kept: also of a disk with little space some parts are to stay."""
        disk = os.statvfs(self._output.parent)
        space = disk.f_bavail * disk.f_frsize / SPACE_PARTS
        return min(self._keeping.most_bytes, space + self.kept_bytes / 2)

    def _watch_requests(self, watch: Watch) -> None:
        """Find which requests ended, whether one was slow, and how old the oldest is."""
        slowest_ns, slow_ns, current = watch.pair(), self._keeping.slow_ns, self._segments[-1]
        self._is_slow |= slow_ns is not None and slowest_ns >= slow_ns
        readings = [one.reading for one in current.begin if isinstance(one, CountersRead)]
        if readings and len(readings) == len(current.begin):
            before_ns = min(one.before_ns for one in readings) - LATE_NS
            watch.give_up(sum(one.in_flight for one in readings), before_ns=before_ns)
        if watch.oldest_ns is not None:
            oldest_s = watch.oldest_ns / 1e9 - self._source.clock_ahead_s
            current.oldest_s = min(current.oldest_s, oldest_s)

    def _cut(self) -> list[CountersRead | str] | None:
        """End the segment and begin the next; return the disks' counters at its end."""
        if (cut := self._source.cut_counted()) is None:
            return None
        self._segments[-1].paths = cut.files
        self._segments[-1].ended_s = time.monotonic()
        self._current_bytes = 0
        self.begin(cut.begin, cut.lost)
        return cut.end

    def need_space(
        self,
        has_space: Callable[[int], None],
        *,
        current_bytes: int | None = None,
        more_bytes: int = 0,
    ) -> None:
        """Raise TracekitError without space; what is kept for a while goes first, oldest first.

        `has_space` raises it for so many bytes; `current_bytes` are those of the current segment,
        without these `more_bytes` came since the last look.
        """
        current = self._current_bytes + more_bytes if current_bytes is None else current_bytes
        while True:
            try:
                has_space(current + self.whole_bytes)
            except TracekitError:
                if not self.drop_oldest():
                    raise
            else:
                return

    def _drop_segments(self, now_s: float) -> None:
        """Delete what is older than is to be kept, or more."""
        keeping, first_s = self._keeping, self._kept_from_s(now_s)
        while len(self._segments) > 1 and self._segments[0].ended_s < first_s:
            self._drop_first()
        # One part stays: it may have been cut just now, and nothing is recorded since.
        while self.kept_bytes > keeping.most_bytes and self._segments[2:]:
            self.drop_oldest()

    def drop_oldest(self) -> bool:
        """Delete the oldest part of what is kept for a while; return whether there was one."""
        if self._keeping.last_s is None or not self._segments[:-1]:
            return False
        self._drop_first()
        kept_s = time.monotonic() - self._segments[0].began_s
        self._shortest_s = min(self._shortest_s, kept_s)
        return True

    def _drop_first(self) -> None:
        for path in self._segments.pop(0).paths:
            path.unlink()

    def _kept_from_s(self, now_s: float) -> float:
        """Return from when on all is kept: requests that are open, or ended just now, whole.

        What was before the oldest of these is kept for as long a time as without them.
        """
        if self._is_slow or self._keeping.last_s is None:
            return -math.inf
        last_s = self._keeping.last_s
        recent = (one for one in self._segments if one.ended_s >= now_s - last_s)
        return min(now_s, *(one.oldest_s for one in recent)) - last_s

    def _write(self, end: list[CountersRead | str]) -> None:
        """Make a piece of the segments but the current one, and have it finished."""
        name, folder = self._new_piece()
        with suppress(OSError):
            add_to_index(folder)
        *segments, current = self._segments
        spool = name_for(self._output)
        if (spool / NAMES).exists():
            shutil.copyfile(spool / NAMES, folder / NAMES)
        if (spool / SEEN_NAME).exists():
            (folder / SEEN_NAME).hardlink_to(spool / SEEN_NAME)
        counters = counters_of(self._disks, begin=segments[0].begin, end=end)
        lost = _between(segments[0].lost, current.lost)
        manifest = self._manifest_of(name, counters, lost)
        took_s = current.began_s - segments[0].began_s
        manifest.names_s = min(manifest.names_s, max(LEAST_LOOK_S, took_s / LOOK_PART))
        manifest.save_in(folder)
        # Behind the manifest, so that whatever a kill leaves in a folder is recovered with it.
        for path in (path for one in segments for path in one.paths):
            if self._keeping.last_s is None:
                path.rename(folder / path.name)
            else:
                (folder / path.name).hardlink_to(path)
        # It is another process, so that this one has its time for the kernel's buffers.
        words, pipe = ("capture", "--recover", str(folder)), subprocess.PIPE
        options = {"stdout": pipe, "stderr": pipe, "text": True, "start_new_session": True}
        writer = start_tracekit(*words, **options)
        self._pieces.append(_Piece(name, sum(lost.values()), writer))

    def _new_piece(self) -> tuple[Path, Path]:
        """Return a name that nothing has yet, and its unfinished folder."""
        while True:
            self._number += 1
            name = self._output.with_name(f"{self._output.name}-{self._number:04}")
            folder = name_for(name)
            if not os.path.lexists(name):
                with suppress(FileExistsError):
                    folder.mkdir(mode=0o700)
                    return name, folder

    def _manifest_of(
        self, name: Path, counters: list[DiskCounters], lost: dict[str, int]
    ) -> Manifest:
        layout = self._manifest.layout | {"counters": to_builtins(counters)}
        recorded = {**lost, "clock_to_wall_ns": self._manifest.recorded["clock_to_wall_ns"]}
        summary = replace(self._manifest.summary, piece=self._piece_number(self._segments[0]))
        return replace(
            self._manifest, output=name.name, layout=layout, recorded=recorded, summary=summary
        )

    def _piece_number(self, segment: _Segment) -> int | UnsetType:
        """Return the number of a piece of one segment; those of `--last` are not in a row."""
        return UNSET if self._keeping.last_s is not None else segment.cut

    def _drop_pieces(self) -> None:
        """Delete the oldest finished pieces of more than is to be kept."""
        there = self._finished()
        sizes = [sum(file.stat().st_size for file in name.iterdir()) for name in there]
        total = sum(sizes)
        for name, size in zip(there, sizes, strict=True):
            if total <= self._keeping.most_bytes:
                return
            shutil.rmtree(name)
            total -= size

    def _finished(self) -> list[Path]:
        """Return the pieces that are written and there: what else has such a name is not ours."""
        return [one.path for one in self._pieces if one.writer.poll() == 0 and one.path.is_dir()]

    @property
    def lost(self) -> int:
        """Records that were lost in pieces one behind the other, and are not in the rest's."""
        return 0 if self._keeping.last_s is not None else sum(one.lost for one in self._pieces)

    def rest(self, end: list[CountersRead | str]) -> tuple[dict[str, int], list[DiskCounters]]:
        """Return losses and counters of what is left at the end, once the source has stopped."""
        first = self._segments[0]
        self._manifest.summary.piece = self._piece_number(first)
        lost = _between(first.lost, self._source.losses())
        return lost, counters_of(self._disks, begin=first.begin, end=end)

    def finish(self) -> list[str]:
        """Wait until the pieces are written; return what there is to say about them."""
        notes = []
        if self._shortest_s < (self._keeping.last_s or 0):
            notes.append(f"there was room for the last {self._shortest_s:,.1f} s only, at times")
        for one in self._pieces:
            _, talk = one.writer.communicate(timeout=FINISH_S)
            if one.writer.returncode:
                notes.append(f"{one.path} is not finished: {talk.strip()}")
            if one.lost:
                notes.append(f"{one.lost:,} records were lost in {one.path.name}")
        if self._keeping.last_s is None:
            self._drop_pieces()
        done = [name.name for name in self._finished()]
        if done:
            notes.append(f"{len(done)} more: {done[0]}" + (f" to {done[-1]}" if done[1:] else ""))
        return notes


def _between(before: dict[str, int], now: dict[str, int]) -> dict[str, int]:
    return {name: now[name] - before[name] for name in ("overrun", "dropped")}
