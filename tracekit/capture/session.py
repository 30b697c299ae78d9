"""One capture from start to end: what is rejected, how long it runs, what is written."""

from __future__ import annotations

import math
import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import UNSET, to_builtins

from tracekit.capture import blk_tracer, blktrace, bpf, programs
from tracekit.capture.cgroups import paths_of_cgroups
from tracekit.capture.command import Ran, Stop, failure_of, run, run_untraced, signals_held
from tracekit.capture.disk_counters import SETTLE_S, CountersRead, counters_of, read_all
from tracekit.capture.kernel_state import STATE_FOLDER, Settings, held_by_probes
from tracekit.capture.layout import SwapFiles, disks_below, find_disks, read_again, read_layout
from tracekit.capture.live import LiveLine, Watch
from tracekit.capture.names import look_after, look_before
from tracekit.capture.pieces import Keeping, Pieces, asking_held
from tracekit.capture.recording import CaptureFiles, NothingRecordedError, between_of
from tracekit.capture.recovery import beside_captures, only_capture, recorded_in
from tracekit.capture.tracefs import tracefs_folder
from tracekit.capture.unfinished import (
    Manifest,
    Unfinished,
    Written,
    new_unfinished,
    space_check,
)
from tracekit.errors import PartialError, TracekitError, UsageError
from tracekit.invoking_user import User, popen_options
from tracekit.layout import CaptureSummary, DiskCounters
from tracekit.machine_state import boot_id
from tracekit.stack.mounts import Mount, read_mounts
from tracekit.units import SECTOR_BYTES

WhyNot = Callable[[Path, Sequence[Path]], str | None]
"""Given tracefs and disks' folders in /sys/block (none: any), why a source cannot record them."""


def _first(
    why_not: Callable[[Path | None], str | None], disks: Sequence[Path | None]
) -> str | None:
    return next(filter(None, map(why_not, disks or [None])), None)


KNOWN: dict[str, tuple[WhyNot, str]] = {
    blktrace.Blktrace.name: (lambda _, disks: _first(blktrace.why_not, disks), blktrace.REMEDY),
    blk_tracer.BlkTracer.name: (
        lambda tracefs, disks: _first(partial(blk_tracer.why_not, tracefs), disks),
        blk_tracer.REMEDY,
    ),
    bpf.Bpf.name: (lambda *_: bpf.why_not(), bpf.REMEDY),
    programs.Perf.name: (lambda *_: programs.probe_perf(), programs.PERF_REMEDY),
}
"""The sources, the best first: why one does not work here, and what to do about it."""
NAMES = tuple(KNOWN)
Source = bpf.Bpf | blktrace.Blktrace | blk_tracer.BlkTracer | programs.Perf


WITHOUT_ROOT = (
    "run: sudo tracekit capture ...; the command and the results are yours then. Without sudo:"
    " tracekit capture --files -- COMMAND, tracekit lab capture, or ask who has root for it"
)


@dataclass(frozen=True)
class Choice:
    """The source to use, and why better ones were passed over."""

    name: str
    refused: dict[str, str]
    """Reason by name."""
    followed: tuple[Path, ...] = ()
    """Devices above the disks that are traced for their remaps."""
    unfollowed: tuple[str, ...] = ()
    """Why others are not."""

    @property
    def notes(self) -> list[str]:
        """Return what there is to say about the choice."""
        left = "; remaps there are not followed, so requests decide the roles of blocks below"
        return [
            *(
                f"captured with {self.name}, because {name} does not work here: {why}"
                for name, why in self.refused.items()
            ),
            *(f"{why}{left}" for why in self.unfollowed),
        ]


def choose(given: str | None, *, tracefs: Path, disks: Sequence[Path] = ()) -> Choice:
    """Return the given source, or the best one that records all the disks here.

    Raise UsageError for an unknown name, TracekitError with the reasons when none works.
    """
    if given is not None and given not in NAMES:
        raise UsageError(f"--source {given}: known are {', '.join(NAMES)}", hint="choose one")
    refused: dict[str, str] = {}
    known = [name for name in NAMES if name != bpf.Bpf.name or bpf.is_built()]
    for name in known if given is None else [given]:
        reason = KNOWN[name][0](tracefs, disks)
        if reason is None:
            return Choice(name, refused)
        refused[name] = reason
    reasons = "; ".join(f"{name}: {why}" for name, why in refused.items())
    hint = KNOWN[given or NAMES[0]][1]
    raise TracekitError(f"block events cannot be captured: {reasons}", hint=hint)


@dataclass(frozen=True)
class CaptureOptions:
    """How to capture."""

    command: tuple[str, ...] = ()
    """Run this and capture until it ends; without it, until `duration_s` or a signal."""
    work: Callable[[Callable[[], None]], object] | None = None
    """Called in place of a command, with what is to be called often while it works.

    The content of the disks is not looked at then: roles of partitions are not asked for.
    """
    user: User | None = None
    """Who it runs as; None: with the rights of this process."""
    is_stdout_ours: bool = False
    """Send what the command prints to stderr, because stdout is for the result."""
    duration_s: float | None = None
    source: str | None = None
    """Name of a source; default: the best that works here."""
    runs_untraced: bool = False
    """Run the command untraced before, to measure what tracing costs."""
    compress: str = "none"
    """none, xz or zstd."""
    buffer_kib: int = 32 << 10
    """Kernel buffer of each CPU."""
    poll_s: float = 0.02
    """Pause between two readings of the kernel's buffers."""
    names_s: float = 0.0
    """How long to look at the files on the disks, before and after; 0: not at all."""
    keeping: Keeping = field(default_factory=Keeping)
    """What of the recording is kept, and when."""
    on_line: Callable[[str], None] | None = None
    """Gets a line a second of what happens."""


@dataclass(frozen=True)
class Captured:
    """What a capture brought."""

    kept: CaptureFiles
    duration_s: float
    exit_status: int | None
    """Of the command; negative for a signal; None without a command."""
    stopped_by: str | None
    """Name of the signal that ended the capture early."""
    notes: tuple[str, ...]
    """What was done about a capture that had been killed, and why not a better source."""
    source: str
    overhead: dict[str, Any] | None = None
    """Nanoseconds of the command traced and untraced and their ratio, where that was asked for."""
    failure: str | None = None
    """Why recording ended before its time; the command ran on."""
    runs_on: int | None = None
    """The command's process, where a second signal came before it ended."""


def capture(devices: list[str], output: Path, *, options: CaptureOptions) -> Captured:
    """Record the block events of the disks `devices` into the new folder `output`.

    Raise UsageError for a bad device or output, TracekitError when the machine does not allow it.
    Kernel settings are given back on every way out, and by the next capture after a kill. Once it
    records, nothing that fails ends the command, and what is recorded is kept.
    """
    disks = find_disks(devices)
    if os.geteuid() != 0:
        raise TracekitError("a capture needs root", hint=WITHOUT_ROOT)
    _reject_output(output, disks)
    tracefs = tracefs_folder()
    with (
        asking_held(options.keeping),
        _turn(tracefs, output, options) as (settings, notes),
        new_unfinished(output) as unfinished,
    ):
        settings.leave(unfinished.path)
        content, mounts, swaps = options.work is None, read_mounts(), SwapFiles(disks)
        layout = read_layout(disks, mounts, reads_content=content)
        with settings.holding(*_held(disks, options)):
            choice = _chosen(tracefs, disks, layout, options=options)
        untraced_s = _untraced_s(options)
        source = _source(choice, disks, unfinished.path, settings=settings, options=options)
        names = look_before([disk.name for disk in disks], mounts, limit_s=options.names_s)
        names.save_in(unfinished.path)
        manifest = _manifest(output, disks, layout, source=source.name, options=options)
        with signals_held() as stop:
            run = Run(source, settings, options, stop, disks, unfinished, manifest, swaps)
            recorded = run.record()
        mounts += read_mounts()
        notes.extend(_complete(run, devices, mounts=mounts, reads_content=content))
        manifest.summary.overhead = (overhead := _overhead(run.ran, untraced_s)) or UNSET
        named = look_after(unfinished.path, manifest)
        kept = _written(recorded, run, output)
        notes.extend(run.pieces.finish() if run.pieces else [])
    said, ran = (*notes, *choice.notes, *run.notes, *names.notes, *named), run.ran
    ended = (ran.exit_status if ran else None, stop.name)
    failure, runs_on = str(run.failure) if run.failure else None, ran.runs_on if ran else None
    return Captured(kept, run.duration_s, *ended, said, source.name, overhead, failure, runs_on)


def _goes_beside(options: CaptureOptions) -> bool:
    """Whether the source that is asked for changes nothing in the kernel that others see."""
    return _asked_source(options) == bpf.Bpf.name


def _held(disks: Sequence[Path], options: CaptureOptions) -> list[tuple[str, str]]:
    """Return what the look for a source holds in the kernel."""
    return [] if _goes_beside(options) else held_by_probes([f"/dev/{disk.name}" for disk in disks])


def _turn(
    tracefs: Path, output: Path, options: CaptureOptions
) -> AbstractContextManager[tuple[Settings, list[str]]]:
    """Return what waits for no other capture, or the lock that all with the tracer need."""
    if _goes_beside(options):
        return beside_captures(tracefs, output)
    return only_capture(tracefs, STATE_FOLDER, output=output)


def _complete(
    run: Run, devices: Sequence[str], *, mounts: list[Mount], reads_content: bool
) -> list[str]:
    """Add to the manifest what is known at the end; return what there is to say of it."""
    before = run.manifest.layout
    if run.options.work is not None:  # what it ran may hang, and so may whatever asks its devices
        run.manifest.layout = before | {"counters": to_builtins(run.counters)}
        return []
    layout, gone = read_again(before, run.disks, mounts=mounts, reads_content=reads_content)
    run.manifest.layout = layout | {"counters": to_builtins(run.counters)}
    named = zip(devices, run.disks, strict=True)
    went = "went away during the capture: its layout is that of before"
    return [f"{device} {went}" for device, disk in named if disk.name in gone]


def _written(recorded: Written, run: Run, output: Path) -> CaptureFiles:
    """Write the capture's files; PartialError, with the command's exit code, where that fails."""
    with suppress(OSError):  # a full disk: what was saved at first will do
        run.unfinished.save(run.manifest)
    try:
        kept = run.unfinished.finish(recorded, run.manifest, output=output)
        return replace(kept, lost_in_pieces=run.pieces.lost) if run.pieces else kept
    except (PartialError, NothingRecordedError) as error:
        raise PartialError(
            f"{run.failure or 'recording ended'}; {error}",
            hint=error.hint,
            exit_code=(run.ran.exit_code if run.ran else 0) or PartialError.exit_code,
        ) from None


def _manifest(
    output: Path,
    disks: Sequence[Path],
    layout: dict[str, Any],
    *,
    source: str,
    options: CaptureOptions,
) -> Manifest:
    return Manifest(
        output=output.name,
        pid=os.getpid(),
        boot_id=boot_id(),
        began_ns=time.time_ns(),
        compress=options.compress,
        disks=[disk.name for disk in disks],
        names_s=options.names_s,
        layout=layout,
        summary=CaptureSummary(source=source, command=list(options.command)),
        cgroups={str(number): path for number, path in paths_of_cgroups().items()},
    )


def _asked_source(options: CaptureOptions) -> str | None:
    """Return the source that is asked for: pieces are of the one that can be cut."""
    if not options.keeping.is_in_pieces:
        return options.source
    if options.source not in (None, blk_tracer.BlkTracer.name):
        raise UsageError(
            f"--source {options.source} records as a whole",
            hint=f"--rotate and --last are of {blk_tracer.BlkTracer.name}",
        )
    return blk_tracer.BlkTracer.name


def _chosen(
    tracefs: Path, disks: Sequence[Path], layout: Mapping[str, Any], *, options: CaptureOptions
) -> Choice:
    """Return the source: by default one that records remaps between devices, if there are some."""
    asked, follower = _asked_source(options), blk_tracer.BlkTracer.name
    between = [Path("/sys/block") / one["device"] for one in between_of(layout)]
    if asked is None and between and KNOWN[follower][0](tracefs, [*disks, *between]) is None:
        asked = follower
    choice = choose(asked, tracefs=tracefs, disks=disks)
    if choice.name != follower:
        why = f"{choice.name} records nothing of {', '.join(one.name for one in between)}"
        return replace(choice, unfollowed=(f"{why}, as {follower} does",) if between else ())
    # A device that somebody else traces is theirs.
    why_not = {one: blk_tracer.why_not(tracefs, one) for one in between}
    free = tuple(one for one, why in why_not.items() if why is None)
    return replace(choice, followed=free, unfollowed=tuple(filter(None, why_not.values())))


def _untraced_s(options: CaptureOptions) -> float | None:
    """Return how long the command takes untraced; None where that is not asked for."""
    if not options.runs_untraced:
        return None
    return run_untraced(options.command, user=options.user, is_stdout_ours=options.is_stdout_ours)


def _source(
    choice: Choice,
    disks: Sequence[Path],
    spool: Path,
    *,
    settings: Settings,
    options: CaptureOptions,
) -> Source:
    name, size = choice.name, options.buffer_kib
    if name == programs.Perf.name:
        return programs.Perf(disks, spool, buffer_kib=size)
    if name == bpf.Bpf.name:
        return bpf.Bpf(disks, spool, buffer_kib=size)
    if name == blktrace.Blktrace.name:
        return blktrace.Blktrace(disks, spool, settings=settings, buffer_kib=size)
    tracer = blk_tracer.BlkTracer(disks, spool, settings=settings, buffer_kib=size)
    tracer.followed = choice.followed
    return tracer


def _overhead(ran: Ran | None, untraced_s: float | None) -> dict[str, Any] | None:
    """Return what the layout says of the cost of tracing; None when it was not measured."""
    if ran is None or untraced_s is None:
        return None
    traced_ns, untraced_ns = round(ran.command_s * 1e9), round(untraced_s * 1e9)
    ratio = round(ran.command_s / untraced_s, 4)
    return {"traced_ns": traced_ns, "untraced_ns": untraced_ns, "ratio": ratio}


PROBE_BYTES = 1 << 20
PROBES = 3
WRITTEN_AT = 6
"""Sectors written, by their place in the file `stat`."""


def _reject_output(output: Path, disks: Sequence[Path]) -> None:
    if output.exists():
        raise UsageError(f"{output} exists already", hint="choose another --output")
    folder = output.absolute().parent
    while not folder.exists():
        folder = folder.parent
    below = disks_below(folder, read_mounts())
    is_unknown = not below and os.major(folder.stat().st_dev) == 0 and not _is_in_memory(folder)
    for disk in disks:
        if disk.name in below or (is_unknown and _is_written_to(disk, folder)):
            raise UsageError(
                f"{output} is on the traced disk {disk.name}: the capture would record itself",
                hint="choose an --output on another disk, or on a tmpfs such as /dev/shm",
            )


def _is_in_memory(folder: Path) -> bool:
    number = folder.stat().st_dev
    numbers = f"{os.major(number)},{os.minor(number)}"
    kinds = {mount.filesystem for mount in read_mounts() if mount.device == numbers}
    return bool(kinds) and kinds <= {"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"}


def _is_written_to(disk: Path, folder: Path) -> bool:
    """Whether what is written in a folder comes to the disk, by the disk's own counters.

    The mount table does not say what an overlay, in a container, or a network file system ends on.
    """
    for _ in range(PROBES):
        before = _written_bytes(disk)
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(os.urandom(PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            return False  # the capture's own folder will say why
        if _written_bytes(disk) - before < PROBE_BYTES:
            return False
    return True


def _written_bytes(disk: Path) -> int:
    return int((disk / "stat").read_text().split()[WRITTEN_AT]) * SECTOR_BYTES


@dataclass
class Run:
    """A source while it records: whatever fails, what there is is kept and the command runs on."""

    source: Source
    settings: Settings
    options: CaptureOptions
    stop: Stop
    disks: Sequence[Path]
    unfinished: Unfinished
    manifest: Manifest
    swap_files: SwapFiles
    """That were in use right before the layout was read."""
    ran: Ran | None = None
    counters: list[DiskCounters] = field(default_factory=list)
    """What the disks' own counters say of the time in which it recorded."""
    failure: TracekitError | None = None
    """Why recording ended before its time."""
    notes: list[str] = field(default_factory=list)
    duration_s: float = 0.0
    """How long it recorded."""
    _total_bytes: int = 0
    _began_s: float = 0.0
    _begin: list[CountersRead | str] = field(default_factory=list)
    _recorded: Written | None = None
    pieces: Pieces | None = None
    _watch: Watch | None = None
    _line: LiveLine | None = None
    _has_space: Callable[[int], None] = lambda _recorded_bytes: None

    def record(self) -> Written:
        """Run the source until it is time to stop; the settings are given back at once.

        Raise TracekitError when it did not begin, or the command could not be started.
        """
        self.unfinished.save(self.manifest)
        try:
            facts = self._start()
            self._begin, self._began_s = read_all(self.disks), time.monotonic()
            self.manifest.recorded = {**facts, "begin": to_builtins(self._begin)}
            self.unfinished.save(self.manifest)
            self._has_space = space_check(self.unfinished.path, self.source.copies)
            self._wait()
            return self._end()
        except TracekitError:
            self.unfinished.forget()
            raise
        finally:
            self._let_go()

    def _start(self) -> dict[str, Any]:
        """Let the source begin, with what looks at its records if that is asked for."""
        keeping, source, on_line = self.options.keeping, self.source, self.options.on_line
        is_watched = keeping.last_s is not None or on_line
        watch = Watch(keeps_latencies=bool(on_line)) if is_watched else None
        lost = None
        if isinstance(source, blk_tracer.BlkTracer):
            source.seen = watch.see if watch else None
            source.has_space = self._check_space
            lost = source.losses
        elif isinstance(source, bpf.Bpf):
            source.seen = watch.add if watch else None
            lost = source.losses
        else:
            watch = None
        try:
            facts = source.start()
        except OSError:  # no space, not even for the first records
            self.unfinished.forget()
            raise
        self.manifest.recorded = facts
        if isinstance(source, blk_tracer.BlkTracer) and keeping.is_in_pieces:
            output = self.unfinished.path.with_name(self.manifest.output)
            self.pieces = Pieces(
                source,
                self.manifest,
                output=output,
                disks=self.disks,
                keeping=keeping,
                watch=watch,
            )
            self.pieces.begin(read_all(self.disks))
            signal.signal(signal.SIGUSR1, self.pieces.ask)
        self._watch = watch
        self._line = LiveLine(self.disks, watch, lost) if on_line else None
        return facts

    def _let_go(self) -> None:
        self.source.close()
        if failed := failure_of(self.settings.restore):
            self.notes.append(f"{failed}; {failed.hint}")

    def _wait(self) -> None:
        """Record for as long as the options say."""
        options = self.options
        if options.work is not None:
            options.work(self._drain)
        elif options.command:
            self.ran = run(
                options.command,
                self.stop,
                popen=popen_options(options.user),
                is_stdout_ours=options.is_stdout_ours,
                each=self._drain,
                pause_s=options.poll_s,
            )
        else:
            end_s = time.monotonic() + options.duration_s if options.duration_s else math.inf
            while not self.stop.signals and time.monotonic() < end_s and self._recorded is None:
                self._drain()
                time.sleep(options.poll_s)

    def _drain(self) -> None:
        """Take what was recorded; when that fails, end the recording and nothing else."""
        if self._recorded is not None:
            return
        self.failure = failure_of(self._take)
        if self.failure is not None:
            self._end()
            self._let_go()

    def _take(self) -> None:
        moved = self.source.drain()
        self._total_bytes += moved
        if self.pieces is not None:
            self.pieces.look(moved)
        elif self._watch is not None:
            self._watch.pair()
        if self._line is not None and self.options.on_line and (text := self._line.text()):
            self.options.on_line(text)
        if self.options.work is None and self.swap_files.add_new(self.manifest.layout):
            self.unfinished.save(self.manifest)
        if self.pieces is not None:
            self.pieces.need_space(self._has_space)
            return
        self._has_space(self._total_bytes)
        if self._total_bytes >= self.options.keeping.most_bytes:
            self.notes.append(f"recording ended at --max-size, after {self._total_bytes:,} bytes")
            self._end()
            self._let_go()

    def _check_space(self, allocated_bytes: int) -> None:
        """Raise TracekitError where there is no space for the files of what is being taken."""
        if self.pieces is None:
            self._has_space(allocated_bytes)
        else:
            self.pieces.need_space(self._has_space, current_bytes=allocated_bytes)

    def _end(self) -> Written:
        """Stop recording, once; return what is recorded."""
        if self._recorded is not None:
            return self._recorded
        if self.failure is None:
            time.sleep(SETTLE_S)
        self.duration_s = time.monotonic() - self._began_s
        end = read_all(self.disks)
        self.counters = counters_of(self.disks, begin=self._begin, end=end)
        try:
            self._recorded = self.source.stop()
        except TracekitError as error:
            if not self._total_bytes:
                raise
            self.failure = self.failure or error
            self._recorded = recorded_in(self.unfinished.path, self.manifest)
        self.manifest.recorded = self.source.facts
        if self.pieces is not None:
            lost, self.counters = self.pieces.rest(end)
            facts = {"clock_to_wall_ns": self.source.facts["clock_to_wall_ns"], **lost}
            self.manifest.recorded = facts
            self._recorded = recorded_in(self.unfinished.path, self.manifest)
        return self._recorded
