"""One capture from start to end: what is rejected, how long it runs, what is written."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import UNSET, to_builtins

from tracekit.capture import blk_tracer, blktrace, programs
from tracekit.capture.command import Ran, Stop, run, run_untraced, signals_held
from tracekit.capture.kernel_state import STATE_FOLDER, Settings, held_by_probes, only_capture
from tracekit.capture.layout import disks_below, find_disks, read_again, read_layout, read_mounts
from tracekit.capture.recording import CaptureFiles, CaptureFolder, Recording, closed_to_others
from tracekit.capture.tracefs import read_setting, tracefs_folder
from tracekit.errors import TracekitError, UsageError, named_for
from tracekit.invoking_user import User, popen_options
from tracekit.layout import CaptureSummary, DiskCounters, Reading
from tracekit.store import new_folder

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
    programs.Perf.name: (lambda *_: programs.probe_perf(), programs.PERF_REMEDY),
    programs.Bpftrace.name: (lambda *_: programs.probe_bpftrace(), programs.BPFTRACE_REMEDY),
}
"""The sources, the best first: why one does not work here, and what to do about it."""
NAMES = tuple(KNOWN)
Source = blktrace.Blktrace | blk_tracer.BlkTracer | programs.Perf | programs.Bpftrace
Recorded = blktrace.Relayed | Recording | programs.TextRecording


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
    for name in NAMES if given is None else [given]:
        reason = KNOWN[name][0](tracefs, disks)
        if reason is None:
            return Choice(name, refused)
        refused[name] = reason
    reasons = "; ".join(f"{name}: {why}" for name, why in refused.items())
    hint = KNOWN[given or NAMES[0]][1]
    raise TracekitError(f"block events cannot be captured: {reasons}", hint=hint)


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
USELESS = (("iostats", "0", WHY_OFF), ("iostats_passthrough", "1", WHY_COMMANDS))


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
    for name, useless, why in USELESS:
        with suppress(OSError):
            if read_setting(disk / "queue" / name) == useless:
                return why
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
    in_flight = values[IN_FLIGHT]
    reading = Reading(
        before_ns=before_ns, after_ns=after_ns, in_flight=in_flight, completed=completed
    )
    return CountersRead(reading, identity)


def counters_of(
    disks: Sequence[Path], *, begin: Sequence[CountersRead | str], end: Sequence[CountersRead | str]
) -> list[DiskCounters]:
    """Return `counters` of layout.json: of each disk both readings, or why there are none."""
    found = []
    for disk, first, last in zip(disks, begin, end, strict=True):
        if isinstance(first, str) or isinstance(last, str):
            why_not = first if isinstance(first, str) else str(last)
            found.append(DiskCounters(device=disk.name, why_not=why_not))
        elif first.identity != last.identity:
            found.append(DiskCounters(device=disk.name, why_not=WHY_GONE))
        else:
            found.append(DiskCounters(device=disk.name, begin=first.reading, end=last.reading))
    return found


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
        only_capture(tracefs, STATE_FOLDER) as (settings, notes),
        named_for(output),
        new_folder(output) as part,
        closed_to_others(part),
    ):
        settings.leave(part)
        with settings.holding(*held_by_probes([f"/dev/{disk.name}" for disk in disks])):
            choice = choose(options.source, tracefs=tracefs, disks=disks)
        untraced_s = _untraced_s(options)
        source = _source(choice.name, disks, part, settings=settings, options=options)
        mounts, content = read_mounts(), options.work is None
        layout = read_layout(disks, mounts, reads_content=content)
        with signals_held() as stop:
            started_s = time.monotonic()
            recorded, ran, counters = _record(source, settings, options, stop, disks=disks)
            duration_s = time.monotonic() - started_s
        mounts += read_mounts()
        layout, gone = read_again(layout, disks, mounts=mounts, reads_content=content)
        for device in (one for one, disk in zip(devices, disks, strict=True) if disk.name in gone):
            notes.append(f"{device} went away during the capture: its layout is that of before")
        overhead = _overhead(ran, untraced_s)
        layout["counters"] = to_builtins(counters)
        traced = list(options.command)
        summary = CaptureSummary(source=source.name, command=traced, overhead=overhead or UNSET)
        folder = CaptureFolder(part, output.name, layout, summary, compress=options.compress)
        kept = recorded.write(folder)
    status, said = ran.exit_status if ran else None, (*notes, *choice.notes)
    return Captured(kept, duration_s, status, stop.name, said, source.name, overhead)


def _untraced_s(options: CaptureOptions) -> float | None:
    """Return how long the command takes untraced; None where that is not asked for."""
    if not options.runs_untraced:
        return None
    return run_untraced(options.command, user=options.user, is_stdout_ours=options.is_stdout_ours)


def _source(
    name: str, disks: Sequence[Path], spool: Path, *, settings: Settings, options: CaptureOptions
) -> Source:
    size = options.buffer_kib
    if name == programs.Perf.name:
        return programs.Perf(disks, spool, buffer_kib=size)
    if name == programs.Bpftrace.name:
        return programs.Bpftrace(disks, spool, buffer_kib=size)
    if name == blktrace.Blktrace.name:
        return blktrace.Blktrace(disks, spool, settings=settings, buffer_kib=size)
    return blk_tracer.BlkTracer(disks, spool, settings=settings, buffer_kib=size)


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
        ran = _wait(options, stop, drain)
        time.sleep(SETTLE_S)
        counters = counters_of(disks, begin=begin, end=read_all(disks))
        return source.stop(), ran, counters
    finally:
        source.close()
        settings.restore()


def _wait(options: CaptureOptions, stop: Stop, drain: Callable[[], None]) -> Ran | None:
    """Capture for as long as the options say; return how a command ended."""
    if options.work is not None:
        options.work(drain)
        return None
    if not options.command:
        _drain_until_done(drain, options, stop)
        return None
    return run(
        options.command,
        stop,
        popen=popen_options(options.user),
        is_stdout_ours=options.is_stdout_ours,
        each=drain,
        pause_s=options.poll_s,
    )


def _drain_until_done(drain: Callable[[], None], options: CaptureOptions, stop: Stop) -> None:
    end_s = time.monotonic() + options.duration_s if options.duration_s else math.inf
    while not stop.signals:
        drain()
        if time.monotonic() >= end_s:
            return
        time.sleep(options.poll_s)
