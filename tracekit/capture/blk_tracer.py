"""The kernel's `blk` tracer in binary form, read from tracefs: no relay files, no helper."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracekit.capture.disk_counters import CountersRead, read_all
from tracekit.capture.kernel_state import Settings
from tracekit.capture.recording import Recording, clock_to_wall_ns
from tracekit.capture.spool import READ_BYTES, Seen, Spool, cut_zeros
from tracekit.capture.tracefs import (
    CGROUP_OPTION,
    buffer_counters,
    online_cpus,
    read_setting,
    saved_names,
    tracefs_folder,
)
from tracekit.errors import TracekitError

NAMES = "names"
REMEDY = "stop the other tracing, or write nop to current_tracer and 0 to trace/enable of the disk"
NAME_INTERVAL_S = 0.25
TURN_BYTES = READ_BYTES
"""Taken of each CPU by turns."""
_COUNTERS = ("entries", "overrun", "commit overrun", "dropped events", "read events")
# Binary records without ftrace's own header; old records make way, so that the kernel marks the
# place of a loss; no messages of others in between. `mono` is blktrace's clock: comparable
# across CPUs and with CLOCK_MONOTONIC.
FIXED = {
    "tracing_on": "1",
    "trace_clock": "mono",
    "saved_cmdlines_size": "16384",
    "options/bin": "1",
    "options/context-info": "0",
    "options/overwrite": "1",
    "options/record-cmd": "1",
    "options/markers": "0",
    CGROUP_OPTION: "1",
}


@dataclass(frozen=True)
class Cut:
    """Where a recording was cut."""

    end: list[CountersRead | str]
    """The disks' counters before it."""
    files: list[Path]
    """What is whole."""
    lost: dict[str, int]
    """Losses until then."""
    begin: list[CountersRead | str]
    """The disks' counters behind it."""


class BlkTracer:
    """Record disks with the tracer `blk`."""

    name = "tracefs-blk"
    copies = 1.0
    clock_ahead_s = 0.0

    def __init__(
        self,
        disks: Sequence[Path],
        spool: Path,
        *,
        settings: Settings,
        buffer_kib: int,
    ) -> None:
        """Prepare to trace `disks`, folders in /sys/block, into files in the folder `spool`."""
        self._disks, self._settings, self._buffer_kib = disks, settings, buffer_kib
        self.followed: Sequence[Path] = ()
        """Devices above the disks that are traced for their remaps."""
        self.seen: Seen | None = None
        """Gets a copy of each CPU's records as they come."""
        self.has_space: Callable[[int], None] = lambda _allocated_bytes: None
        """Raises TracekitError where the files of so many bytes of records have no space."""
        self._tracefs = tracefs_folder()
        self._folder = spool
        self._names: dict[int, str] = {}
        self._due_s = 0.0
        self._files = ExitStack()
        self._pipes: dict[int, int] = {}
        self._spools: dict[int, Spool] = {}
        self.cuts = self._unasked_bytes = 0
        """The number of the files that are written to."""
        self._before: dict[str, int] = {}
        self.facts: dict[str, Any] = {}
        """What is to be known of the records beside them."""

    def start(self) -> dict[str, Any]:
        """Begin to record; `why_not` was asked before. Return what `rest_of` is to know."""
        root = self._tracefs
        values = {root / name: value for name, value in FIXED.items() if (root / name).exists()}
        for cpu in online_cpus():
            values[root / f"per_cpu/cpu{cpu}/buffer_size_kb"] = str(self._buffer_kib)
        self._settings.change(values)
        self._settings.change({root / "current_tracer": "blk"})
        self._before = self.counters()
        self._open(online_cpus())
        traced = (*self.followed, *self._disks)
        self._settings.change({disk / "trace/enable": "1" for disk in traced})
        self.facts = {"before": self._before, "clock_to_wall_ns": clock_to_wall_ns()}
        return self.facts

    def _open(self, cpus: Iterable[int]) -> None:
        for cpu in cpus:
            pipe = self._tracefs / f"per_cpu/cpu{cpu}/trace_pipe"
            number = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            self._files.callback(os.close, number)
            self._pipes[cpu] = number
        self.cut()

    def cut(self) -> list[Path]:
        """Let what comes next go into new files; return those that are whole.

        The names of processes in these are kept by then.
        """
        if self._spools:
            self._note_names()
        self.cuts += 1
        new: dict[int, Spool] = {}
        try:
            for cpu in self._pipes:
                path = self._folder / f"cpu{cpu}.{self.cuts:06}"
                new[cpu] = Spool(path, self._check_space)
        except OSError:
            for spool in new.values():
                spool.close()
            raise
        whole, self._spools = [spool.close() for spool in self._spools.values()], new
        return whole

    def cut_counted(self) -> Cut:
        """Cut, with all that was recorded until then, between two readings of disks' counters."""
        end = read_all(self._disks)
        self.drain()
        return Cut(end, self.cut(), self.losses(), read_all(self._disks))

    def _allocated_bytes(self) -> int:
        return sum(spool.allocated_bytes for spool in self._spools.values())

    def _check_space(self, step_bytes: int) -> None:
        """Raise TracekitError where there is no space for each CPU to take as much once more."""
        if (allocated_bytes := self._allocated_bytes()) > self._unasked_bytes:
            self.has_space(allocated_bytes + len(self._spools) * step_bytes)

    def drain(self) -> int:
        """Move what the kernel's buffers hold to the spool files; return the bytes moved.

        Raise TracekitError where somebody else took the tracer.
        """
        moved = 0
        waiting = [*self._spools]
        while waiting:
            taken = {cpu: self._take_turn(cpu, self.seen) for cpu in waiting}
            moved += sum(taken.values())
            waiting = [cpu for cpu in waiting if taken[cpu] >= TURN_BYTES]
        if time.monotonic() >= self._due_s:
            self._note_names()
            self._check()
            self._due_s = time.monotonic() + NAME_INTERVAL_S
        return moved

    def _take_turn(self, cpu: int, seen: Seen | None = None) -> int:
        """Take some of a CPU's records: where space is short, each CPU gets as much of it."""
        return self._spools[cpu].fill(self._pipes[cpu], seen, most_bytes=TURN_BYTES)

    def _note_names(self) -> None:
        """Keep the names that the kernel has of processes; it forgets them."""
        keep_names(self._folder / NAMES, saved_names(self._tracefs), known=self._names)

    def _check(self) -> None:
        tracer = read_setting(self._tracefs / "current_tracer")
        why = f"{self._tracefs}/current_tracer is '{tracer}'" if tracer != "blk" else ""
        if read_setting(self._tracefs / "tracing_on") == "0":
            why = why or f"{self._tracefs}/tracing_on is 0"
        for disk in self._disks:
            with suppress(OSError):  # it went away
                if read_setting(disk / "trace/enable") == "0" and int((disk / "size").read_text()):
                    why = why or f"{disk}/trace/enable is 0"
        if why:
            message = f"somebody else took the kernel's tracer: {why}"
            raise TracekitError(message, hint="keep other tracing off this machine meanwhile")

    def stop(self) -> Recording:
        """Stop recording, move the rest, and say what was lost."""
        for disk in (*self.followed, *self._disks):
            with suppress(OSError):  # it went away, and what is recorded is kept
                (disk / "trace/enable").write_text("0")
        self._take_rest()
        with suppress(OSError):
            self._note_names()
        for spool in self._spools.values():
            spool.close()
        self.facts |= self.losses()
        # What stays in the kernel's buffers has no place in the record.
        left = {cpu: buffer_counters(self._tracefs, cpu).get("entries", 0) for cpu in self._spools}
        self.facts["dropped"] += max(0, self.counters()["entries"])
        self.facts["cut"] = sorted(cpu for cpu, entries in left.items() if entries > 0)
        self.facts["taken"] = self._since()["read events"]
        return recorded_in(self._folder, self.facts, is_live=True)

    def _take_rest(self) -> None:
        """Take what is left, by turns: where one CPU has no more space the others go on."""
        self._unasked_bytes = self._allocated_bytes() + len(self._spools) * READ_BYTES
        waiting = [*self._spools]
        while waiting:
            for cpu in [*waiting]:
                moved = 0
                with suppress(OSError, TracekitError):
                    moved = self._take_turn(cpu)
                if moved == 0:
                    waiting.remove(cpu)

    def losses(self) -> dict[str, int]:
        """Return how many records the kernel has lost since recording began."""
        since = self._since()
        overrun = since["overrun"] + since["commit overrun"]
        return {"overrun": overrun, "dropped": since["dropped events"]}

    def _since(self) -> dict[str, int]:
        return {name: now - self._before.get(name, 0) for name, now in self.counters().items()}

    def close(self) -> None:
        """Close the pipes: the kernel keeps its tracer while one is open."""
        self._files.close()

    def counters(self) -> dict[str, int]:
        """Return what the kernel counts of its buffers, all CPUs' together."""
        found = [buffer_counters(self._tracefs, cpu) for cpu in online_cpus()]
        return {name: sum(one.get(name, 0) for one in found) for name in _COUNTERS}

    @classmethod
    def rest_of(
        cls, folder: Path, *, facts: dict[str, Any], disks: Sequence[Path], settings: Settings
    ) -> dict[str, Any]:
        """Take what a killed capture left in the kernel's buffers; return the facts of the whole.

        Its settings are still in force.
        """
        ours = cls(disks, folder, settings=settings, buffer_kib=0)
        files = spools_in(folder)
        ours.cuts = max(cuts_in(folder), default=0)
        ours._before, ours.facts = facts["before"], facts
        try:
            ours._open(files)
            ours.stop()
            return ours.facts
        finally:
            ours.close()


def spools_in(folder: Path) -> dict[int, list[Path]]:
    """Return the files of records in a folder by CPU, in the order of time."""
    found: dict[int, list[Path]] = {}
    for path in sorted(folder.glob("cpu*.*")):
        found.setdefault(int(path.stem.removeprefix("cpu")), []).append(path)
    return found


def cuts_in(folder: Path) -> set[int]:
    """Return the numbers that the files of records in a folder have, of each CPU one."""
    return {int(path.suffix[1:]) for paths in spools_in(folder).values() for path in paths}


def recorded_in(folder: Path, facts: Mapping[str, Any], *, is_live: bool) -> Recording:
    """Return what is recorded in a folder, by whatever process and however that ended."""
    names: dict[int, str] = {}
    with suppress(FileNotFoundError):
        for line in (folder / NAMES).read_text(errors="replace").splitlines():
            pid, _, name = line.partition(" ")
            if pid.isdigit():
                names[int(pid)] = name
    spools = spools_in(folder)
    for path in (path for paths in spools.values() for path in paths):
        cut_zeros(path)
    return Recording(
        spools=spools,
        processes=names,
        overrun=facts.get("overrun", 0),
        dropped=facts.get("dropped", 0),
        clock_to_wall_ns=facts["clock_to_wall_ns"],
        taken=facts.get("taken"),
        cut=frozenset(facts.get("cut", ())),
        is_live=is_live,
    )


def keep_names(file: Path, names: Mapping[int, str], *, known: dict[int, str]) -> None:
    """Add those names of processes to a file, and to the `known`, that are new."""
    if new := {pid: name for pid, name in names.items() if known.get(pid) != name}:
        known |= new
        with file.open("a") as out:
            out.writelines(f"{pid} {name}\n" for pid, name in new.items())


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
