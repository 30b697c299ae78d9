"""One capture from start to end: what is refused, how long it runs, what is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tracekit.capture.blk_tracer import BlkTracer
from tracekit.capture.command import Stop, end, signals_held, start
from tracekit.capture.keep import Kept, keep
from tracekit.capture.layout import find_disk, read_layout
from tracekit.capture.mounts import disks_below, read_mounts
from tracekit.capture.settings import STATE_FOLDER, Settings, only_capture
from tracekit.capture.source import Recording, Source
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
    """What was done about a capture that had been killed."""


def capture(device: str, output: Path, *, options: Options) -> Captured:
    """Record the block events of `device` into the new folder `output`.

    Raise UsageError for a bad device or output, TracekitError when the machine does not allow it.
    Kernel settings are given back on every way out, and by the next capture after a kill.
    """
    disk = find_disk(device)
    if os.geteuid() != 0:
        raise TracekitError("a capture needs root", hint="run it with sudo")
    _refuse_output(output, disk.name)
    tracefs = tracefs_folder()
    with (
        only_capture(tracefs, options.state_folder) as (settings, notes),
        new_folder(output) as part,
    ):
        settings.leave(part)
        source = BlkTracer(disk, part, settings, tracefs=tracefs, buffer_kib=options.buffer_kib)
        mounts = read_mounts()
        with signals_held() as stop:
            started_s = time.monotonic()
            recording, exit_status = _record(source, settings, options, stop)
            duration_s = time.monotonic() - started_s
        layout = read_layout(disk, [*mounts, *read_mounts()])
        about = {"source": source.name, "command": list(options.command)}
        layout["capture"] = about
        kept = keep(recording, part, name=output.name, layout=layout, compress=options.compress)
    return Captured(kept, duration_s, exit_status, stop.name, tuple(notes))


def _refuse_output(output: Path, disk: str) -> None:
    if output.exists():
        raise UsageError(f"{output} exists already", hint="choose another --output")
    folder = output.absolute().parent
    while not folder.exists():
        folder = folder.parent
    if disk in disks_below(folder, read_mounts()):
        raise UsageError(
            f"{output} is on the traced disk {disk}: the capture would record itself",
            hint="choose an --output on another disk, or on a tmpfs such as /dev/shm",
        )


def _record(
    source: Source, settings: Settings, options: Options, stop: Stop
) -> tuple[Recording, int | None]:
    """Run the source until it is time to stop; the settings are given back at once."""
    child = None
    try:
        source.start()
        if options.command:
            child = start(options.command, is_stdout_ours=options.is_stdout_ours)
        _drain_until_done(source, child, options, stop)
        if child is not None:
            end(child, source.drain)
        return source.stop(), child.returncode if child else None
    finally:
        if child is not None and child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        source.close()
        settings.restore()


def _drain_until_done(
    source: Source, child: subprocess.Popen[bytes] | None, options: Options, stop: Stop
) -> None:
    end_s = time.monotonic() + options.duration_s if options.duration_s else None
    total_bytes = 0
    while not stop.signals:
        total_bytes += source.drain()
        options.on_bytes(total_bytes)
        if child is not None and child.poll() is not None:
            return
        if end_s is not None and time.monotonic() >= end_s:
            return
        time.sleep(options.poll_s)
