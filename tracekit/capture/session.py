"""One capture from start to end: what is rejected, how long it runs, what is written."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import UNSET, to_builtins

from tracekit.capture import blk_tracer, blktrace, bpftrace, perf
from tracekit.capture.blk_tracer import BlkTracer
from tracekit.capture.blktrace import Blktrace
from tracekit.capture.bpftrace import Bpftrace
from tracekit.capture.command import Ran, Stop, run, run_untraced, signals_held
from tracekit.capture.kernel_state import STATE_FOLDER, Settings, held_by_probes, only_capture
from tracekit.capture.layout import disks_below, find_disks, read_again, read_layout, read_mounts
from tracekit.capture.perf import Perf
from tracekit.capture.recording import CaptureFiles, CaptureFolder
from tracekit.capture.source import Recorded, Source
from tracekit.capture.tracefs import read_setting, tracefs_folder
from tracekit.errors import TracekitError, UsageError, named_for
from tracekit.layout import CaptureSummary, DiskCounters, Reading
from tracekit.store import new_folder


@dataclass(frozen=True)
class Known:
    """A source by name, and the question whether it works here."""

    name: str
    why_not: Callable[[Path, Path | None], str | None]
    """Given tracefs and a disk's folder in /sys/block (None: any), the reason or None."""
    asks_each_disk: bool
    """Whether the answer depends on the disk."""
    remedy: str

    def first_reason(self, tracefs: Path, disks: Sequence[Path]) -> str | None:
        """Return why it cannot record these disks (none: any) together, or None."""
        asked: Sequence[Path | None] = disks if disks and self.asks_each_disk else [None]
        return next(filter(None, (self.why_not(tracefs, disk) for disk in asked)), None)


KNOWN = (
    Known(
        blktrace.Blktrace.name,
        lambda _tracefs, disk: blktrace.why_not(disk),
        asks_each_disk=True,
        remedy=blktrace.REMEDY,
    ),
    Known(blk_tracer.BlkTracer.name, blk_tracer.why_not, True, blk_tracer.REMEDY),
    Known(perf.Perf.name, lambda _tracefs, _disk: perf.probe(), False, perf.REMEDY),
    Known(bpftrace.Bpftrace.name, lambda _tracefs, _disk: bpftrace.probe(), False, bpftrace.REMEDY),
)
NAMES = tuple(known.name for known in KNOWN)


@dataclass(frozen=True)
class Choice:
    """The source to use, and why better ones were passed over."""

    name: str
    refused: dict[str, str]
    """Reason by name."""

    @property
    def notes(self) -> list[str]:
        """Return what there is to say about the choice."""
        return [
            f"captured with {self.name}, because {name} does not work here: {why}"
            for name, why in self.refused.items()
        ]


def choose(given: str | None, *, tracefs: Path, disks: Sequence[Path] = ()) -> Choice:
    """Return the given source, or the best one that records all the disks here.

    Raise UsageError for an unknown name, TracekitError with the reasons when none works.
    """
    if given is not None and given not in NAMES:
        raise UsageError(f"--source {given}: known are {', '.join(NAMES)}", hint="choose one")
    refused: dict[str, str] = {}
    wanted = [known for known in KNOWN if given in (None, known.name)]
    for known in wanted:
        reason = known.first_reason(tracefs, disks)
        if reason is None:
            return Choice(known.name, refused)
        refused[known.name] = reason
    reasons = "; ".join(f"{name}: {why}" for name, why in refused.items())
    raise TracekitError(f"block events cannot be captured: {reasons}", hint=wanted[0].remedy)


FIELDS = {"read": 0, "write": 4, "discard": 11, "flush": 15}
"""Requests completed, by their place in the file `stat`; flushes are those of the device."""
IN_FLIGHT = 8
SETTLE_S = 0.003
"""What a command did last is in the counters by then: parse takes a millisecond as the most that
they can be late."""
WHY_OFF = "the kernel does not count its requests: queue/iostats is 0"
WHY_COMMANDS = "the kernel counts commands to it as well: queue/iostats_passthrough is 1"
WHY_GONE = "it went away, and its counters with it"
WHY_OLD = "the kernel, before 4.18, counts discards as writes"


@dataclass(frozen=True)
class CountersRead:
    """The counters of a disk at a moment."""

    reading: Reading
    identity: int
    """Of the disk's folder: another disk of the same name has another."""


def read_all(disks: Sequence[Path]) -> list[CountersRead | str]:
    """Read the counters of each disk, a folder in /sys/block, or say why they cannot be used.

    A reading takes some 20 us, with which requests of other disks may go on.
    """
    return [_read(disk) for disk in disks]


def _read(disk: Path) -> CountersRead | str:
    if _setting(disk / "queue/iostats") == "0":
        return WHY_OFF
    if _setting(disk / "queue/iostats_passthrough") == "1":
        return WHY_COMMANDS
    try:
        identity = disk.stat().st_ino
        before_ns = time.monotonic_ns()
        text = (disk / "stat").read_text()
    except OSError:
        return WHY_GONE
    after_ns = time.monotonic_ns()
    values = [int(word) for word in text.split()]
    if len(values) <= FIELDS["discard"]:
        return WHY_OLD
    completed = {name: values[at] for name, at in FIELDS.items() if at < len(values)}
    reading = Reading(
        before_ns=before_ns, after_ns=after_ns, in_flight=values[IN_FLIGHT], completed=completed
    )
    return CountersRead(reading, identity)


def _setting(file: Path) -> str | None:
    try:
        return read_setting(file)
    except OSError:
        return None


def counters_of(
    disks: Sequence[Path], *, begin: Sequence[CountersRead | str], end: Sequence[CountersRead | str]
) -> list[DiskCounters]:
    """Return `counters` of layout.json: of each disk both readings, or why there are none."""
    return [
        _pair(disk.name, first, last) for disk, first, last in zip(disks, begin, end, strict=True)
    ]


def _pair(device: str, begin: CountersRead | str, end: CountersRead | str) -> DiskCounters:
    if isinstance(begin, str) or isinstance(end, str):
        why_not = begin if isinstance(begin, str) else str(end)
        return DiskCounters(device=device, why_not=why_not)
    if begin.identity != end.identity:
        return DiskCounters(device=device, why_not=WHY_GONE)
    return DiskCounters(device=device, begin=begin.reading, end=end.reading)


@dataclass(frozen=True)
class CaptureOptions:
    """How to capture."""

    command: tuple[str, ...] = ()
    """Run this and capture until it ends; without it, until `duration_s` or a signal."""
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
    state_folder: Path = STATE_FOLDER
    on_bytes: Callable[[int], None] = lambda _total_bytes: None
    """Called after each reading with the bytes read in all."""


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


def capture(devices: list[str], output: Path, *, options: CaptureOptions) -> Captured:
    """Record the block events of the disks `devices` into the new folder `output`.

    Raise UsageError for a bad device or output, TracekitError when the machine does not allow it.
    Kernel settings are given back on every way out, and by the next capture after a kill.
    """
    disks = find_disks(devices)
    if os.geteuid() != 0:
        raise TracekitError("a capture needs root", hint="run it with sudo")
    _reject_output(output, disks)
    tracefs = tracefs_folder()
    with (
        only_capture(tracefs, options.state_folder) as (settings, notes),
        named_for(output),
        new_folder(output) as part,
    ):
        settings.leave(part)
        with settings.holding(*held_by_probes([f"/dev/{disk.name}" for disk in disks])):
            choice = choose(options.source, tracefs=tracefs, disks=disks)
        untraced_s = _untraced(options)
        source = _source(choice.name, disks, part, settings=settings, options=options)
        mounts = read_mounts()
        layout = read_layout(disks, mounts)
        with signals_held() as stop:
            started_s = time.monotonic()
            recorded, ran, counters = _record(source, settings, options, stop, disks=disks)
            duration_s = time.monotonic() - started_s
        layout = read_again(layout, disks, mounts=[*mounts, *read_mounts()])
        notes.extend(_gone(devices, disks))
        overhead = _overhead(ran, untraced_s)
        layout["counters"] = to_builtins(counters)
        summary = CaptureSummary(
            source=source.name, command=list(options.command), overhead=overhead or UNSET
        )
        kept = recorded.write(
            CaptureFolder(part, output.name, layout, summary, compress=options.compress)
        )
    status = ran.exit_status if ran else None
    said = (*notes, *choice.notes)
    return Captured(kept, duration_s, status, stop.name, said, source.name, overhead)


def _gone(devices: Sequence[str], disks: Sequence[Path]) -> list[str]:
    return [
        f"{device} went away during the capture: its layout is that of before"
        for device, disk in zip(devices, disks, strict=True)
        if not disk.is_dir()
    ]


def _untraced(options: CaptureOptions) -> float | None:
    if not options.runs_untraced:
        return None
    return run_untraced(options.command, is_stdout_ours=options.is_stdout_ours)


def _source(
    name: str, disks: Sequence[Path], spool: Path, *, settings: Settings, options: CaptureOptions
) -> Source:
    size = options.buffer_kib
    if name == Perf.name:
        return Perf(disks, spool, buffer_kib=size)
    if name == Bpftrace.name:
        return Bpftrace(disks, spool, buffer_kib=size)
    if name == Blktrace.name:
        return Blktrace(disks, spool, settings=settings, buffer_kib=size)
    tracefs = tracefs_folder()
    return BlkTracer(disks, spool, settings=settings, tracefs=tracefs, buffer_kib=size)


def _overhead(ran: Ran | None, untraced_s: float | None) -> dict[str, Any] | None:
    """Return what the layout says of the cost of tracing; None when it was not measured."""
    if ran is None or untraced_s is None:
        return None
    traced_ns, untraced_ns = round(ran.command_s * 1e9), round(untraced_s * 1e9)
    ratio = round(ran.command_s / untraced_s, 4)
    return {"traced_ns": traced_ns, "untraced_ns": untraced_ns, "ratio": ratio}


def _reject_output(output: Path, disks: Sequence[Path]) -> None:
    if output.exists():
        raise UsageError(f"{output} exists already", hint="choose another --output")
    folder = output.absolute().parent
    while not folder.exists():
        folder = folder.parent
    below = disks_below(folder, read_mounts())
    for name in [disk.name for disk in disks if disk.name in below]:
        raise UsageError(
            f"{output} is on the traced disk {name}: the capture would record itself",
            hint="choose an --output on another disk, or on a tmpfs such as /dev/shm",
        )


def _record(
    source: Source,
    settings: Settings,
    options: CaptureOptions,
    stop: Stop,
    *,
    disks: Sequence[Path],
) -> tuple[Recorded, Ran | None, list[DiskCounters]]:
    """Run the source until it is time to stop; the settings are given back at once.

    Return also what the disks' own counters say of the time in which it recorded.
    """
    total_bytes = 0

    def drain() -> None:
        nonlocal total_bytes
        total_bytes += source.drain()
        options.on_bytes(total_bytes)

    try:
        source.start()
        begin = read_all(disks)
        ran = None
        if options.command:
            ran = run(
                options.command,
                stop,
                is_stdout_ours=options.is_stdout_ours,
                each=drain,
                pause_s=options.poll_s,
            )
        else:
            _drain_until_done(drain, options, stop)
        time.sleep(SETTLE_S)
        counters = counters_of(disks, begin=begin, end=read_all(disks))
        return source.stop(), ran, counters
    finally:
        source.close()
        settings.restore()


def _drain_until_done(drain: Callable[[], None], options: CaptureOptions, stop: Stop) -> None:
    end_s = time.monotonic() + options.duration_s if options.duration_s else None
    while not stop.signals:
        drain()
        if end_s is not None and time.monotonic() >= end_s:
            return
        time.sleep(options.poll_s)
