"""The kernel's `blk` tracer in binary form, read from tracefs: no relay files, no helper."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from tracekit.capture.kernel_state import Settings
from tracekit.capture.recording import Recording
from tracekit.capture.tracefs import (
    buffer_counters,
    online_cpus,
    read_setting,
    saved_names,
    tracefs_folder,
)

READ_BYTES = 1 << 16
REMEDY = "stop the other tracing, or write nop to current_tracer and 0 to trace/enable of the disk"
NAME_INTERVAL_S = 0.25
_LOSSES = ("overrun", "commit overrun", "dropped events")
# Binary records without ftrace's own header; old records make way, so that the kernel marks the
# place of a loss; no messages of others in between. `mono` is blktrace's clock: comparable
# across CPUs and with CLOCK_MONOTONIC.
_FIXED = {
    "tracing_on": "1",
    "trace_clock": "mono",
    "saved_cmdlines_size": "16384",
    "options/bin": "1",
    "options/context-info": "0",
    "options/overwrite": "1",
    "options/record-cmd": "1",
    "options/markers": "0",
    "options/blk_cgroup": "0",
}


class BlkTracer:
    """Record disks with the tracer `blk`."""

    name = "tracefs-blk"

    def __init__(
        self, disks: Sequence[Path], spool: Path, *, settings: Settings, buffer_kib: int
    ) -> None:
        """Prepare to trace `disks`, folders in /sys/block, into files in the folder `spool`."""
        self._disks, self._settings, self._buffer_kib = disks, settings, buffer_kib
        self._tracefs = tracefs_folder()
        self._spools = {cpu: spool / f"cpu{cpu}" for cpu in online_cpus()}
        self._names: dict[int, str] = {}
        self._names_due_s = 0.0
        self._files = ExitStack()
        self._pipes: list[tuple[int, int]] = []
        self._lost_before: dict[str, int] = {}

    def start(self) -> None:
        """Begin to record; `why_not` was asked before."""
        root = self._tracefs
        values = {root / name: value for name, value in _FIXED.items() if (root / name).exists()}
        for cpu in self._spools:
            values[root / f"per_cpu/cpu{cpu}/buffer_size_kb"] = str(self._buffer_kib)
        self._settings.change(values)
        self._settings.change({root / "current_tracer": "blk"})
        self._lost_before = self._losses()
        for cpu, spool in self._spools.items():
            pipe = root / f"per_cpu/cpu{cpu}/trace_pipe"
            source = self._open(pipe, os.O_RDONLY | os.O_NONBLOCK)
            self._pipes.append((source, self._open(spool, os.O_WRONLY | os.O_CREAT | os.O_EXCL)))
        self._settings.change({disk / "trace/enable": "1" for disk in self._disks})

    def drain(self) -> int:
        """Move what the kernel's buffers hold to the spool files; return the bytes moved."""
        moved = sum(_move(pipe, spool) for pipe, spool in self._pipes)
        if time.monotonic() >= self._names_due_s:
            self._names.update(saved_names(self._tracefs))
            self._names_due_s = time.monotonic() + NAME_INTERVAL_S
        return moved

    def stop(self) -> Recording:
        """Stop recording, move the rest, and say what was lost."""
        for disk in self._disks:
            with suppress(FileNotFoundError):  # it went away, and what is recorded is kept
                (disk / "trace/enable").write_text("0")
        while self.drain() > 0:
            pass
        self._names.update(saved_names(self._tracefs))
        lost = {name: now - self._lost_before[name] for name, now in self._losses().items()}
        return Recording(
            spools=self._spools,
            processes=self._names,
            overrun=lost["overrun"] + lost["commit overrun"],
            dropped=lost["dropped events"],
            clock_to_wall_ns=time.time_ns() - time.clock_gettime_ns(time.CLOCK_MONOTONIC),
        )

    def close(self) -> None:
        """Close the pipes: the kernel keeps its tracer while one is open."""
        self._files.close()

    def _open(self, path: Path, flags: int) -> int:
        number = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self._files.callback(os.close, number)
        return number

    def _losses(self) -> dict[str, int]:
        counters = [buffer_counters(self._tracefs, cpu) for cpu in self._spools]
        return {name: sum(one[name] for one in counters) for name in _LOSSES}


def why_not(tracefs: Path, disk: Path | None) -> str | None:
    """Return why the tracer cannot record `disk`, a folder in /sys/block (None: any), or None."""
    if "blk" not in (tracefs / "available_tracers").read_text().split():
        return "this kernel has no tracer blk (CONFIG_BLK_DEV_IO_TRACE)"
    tracer = read_setting(tracefs / "current_tracer")
    if tracer != "nop":
        return f"the kernel's tracer is in use: {tracefs}/current_tracer is '{tracer}'"
    events = (tracefs / "set_event").read_text().split()
    if events:
        return (
            f"{len(events)} trace events are enabled in {tracefs}/set_event "
            f"(first: {events[0]}) and would mix with the records"
        )
    if disk is not None and read_setting(disk / "trace/enable") != "0":
        return f"{disk.name} is being traced already"
    return None


def _move(pipe: int, spool: int) -> int:
    moved = 0
    while True:
        try:
            data = os.read(pipe, READ_BYTES)
        except BlockingIOError:
            return moved
        if not data:
            return moved
        moved += len(data)
        while data:
            data = data[os.write(spool, data) :]
