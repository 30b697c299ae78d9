"""One capture from start to end: what is refused, how long it runs, what is kept."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracekit.capture import iostats
from tracekit.capture.blk_tracer import BlkTracer
from tracekit.capture.blktrace import Blktrace
from tracekit.capture.bpftrace import Bpftrace
from tracekit.capture.command import Ran, Stop, run, run_untraced, signals_held
from tracekit.capture.held import held_by_probes
from tracekit.capture.keep import Kept
from tracekit.capture.layout import find_disks, read_again, read_layout
from tracekit.capture.mounts import disks_below, read_mounts
from tracekit.capture.perf import Perf
from tracekit.capture.settings import STATE_FOLDER, Settings, only_capture
from tracekit.capture.source import Recorded, Source
from tracekit.capture.sources import choose
from tracekit.capture.tracefs import tracefs_folder
from tracekit.errors import TracekitError, UsageError
from tracekit.store import new_folder


@dataclass(frozen=True)
class Options:
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
    """Told after each reading how many bytes were read in all."""


@dataclass(frozen=True)
class Captured:
    """What a capture brought."""

    kept: Kept
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


def capture(devices: list[str], output: Path, *, options: Options) -> Captured:
    """Record the block events of the disks `devices` into the new folder `output`.

    Raise UsageError for a bad device or output, TracekitError when the machine does not allow it.
    Kernel settings are given back on every way out, and by the next capture after a kill.
    """
    disks = find_disks(devices)
    if os.geteuid() != 0:
        raise TracekitError("a capture needs root", hint="run it with sudo")
    _refuse_output(output, disks)
    tracefs = tracefs_folder()
    with (
        only_capture(tracefs, options.state_folder) as (settings, notes),
        _named_failure(output),
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
        notes += [
            f"{device} went away during the capture: its layout is that of before"
            for device, disk in zip(devices, disks, strict=True)
            if not disk.is_dir()
        ]
        overhead = _overhead(ran, untraced_s)
        layout["counters"] = counters
        layout["capture"] = _about(source.name, options, overhead)
        kept = recorded.keep(part, name=output.name, layout=layout, compress=options.compress)
    status = ran.exit_status if ran else None
    said = (*notes, *choice.notes)
    return Captured(kept, duration_s, status, stop.name, said, source.name, overhead)


def _untraced(options: Options) -> float | None:
    if not options.runs_untraced:
        return None
    return run_untraced(options.command, is_stdout_ours=options.is_stdout_ours)


def _about(source: str, options: Options, overhead: dict[str, Any] | None) -> dict[str, Any]:
    about = {"source": source, "command": list(options.command)}
    return about | ({"overhead": overhead} if overhead else {})


@contextmanager
def _named_failure(output: Path) -> Iterator[None]:
    """Name the output in an error of the system that names no file, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(output)) from error


def _source(
    name: str, disks: Sequence[Path], spool: Path, *, settings: Settings, options: Options
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


def _refuse_output(output: Path, disks: Sequence[Path]) -> None:
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
    source: Source, settings: Settings, options: Options, stop: Stop, *, disks: Sequence[Path]
) -> tuple[Recorded, Ran | None, list[dict[str, Any]]]:
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
        begin = iostats.read_all(disks)
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
        time.sleep(iostats.SETTLE_S)
        counters = iostats.told(disks, begin=begin, end=iostats.read_all(disks))
        return source.stop(), ran, counters
    finally:
        source.close()
        settings.restore()


def _drain_until_done(drain: Callable[[], None], options: Options, stop: Stop) -> None:
    end_s = time.monotonic() + options.duration_s if options.duration_s else None
    while not stop.signals:
        drain()
        if end_s is not None and time.monotonic() >= end_s:
            return
        time.sleep(options.poll_s)
