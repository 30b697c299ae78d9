"""Faults while a capture runs, and what became of the program, the records and the settings.

The program writes one place after the other, keeps count of it itself, and answers to signals by a
file; so a record that is missing shows in the places, and a program that was hurt in its count.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from tests import parsed as traces
from tests.capture import machine
from tests.capture.machine import CAPTURE, TRACER, Disk
from tests.replay.disk import fill, small_file_system
from tracekit.readers.blktrace import parse

WRITER = """
import mmap, os, signal, struct, sys, time
device, count, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
asked = []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, _: asked.append(number))
file = os.open(device, os.O_WRONLY | os.O_DIRECT)
page = mmap.mmap(-1, 4096)
with open(folder + "/count", "w+b") as shared:
    shared.truncate(8)
    done = mmap.mmap(shared.fileno(), 8)
for place in range(count):
    os.pwrite(file, page, (FIRST + place % WRITES) * 4096)
    done[:] = struct.pack("q", place + 1)
    time.sleep(0.0004)
    if asked:
        break
open(folder + "/whole", "w").write(" ".join(map(str, asked)))
sys.exit(42 if asked else 7)
"""
WRITES = 800
FIRST = 16
"""Pages of the partition that are left as they are: the signature of its swap area."""
SMALL_MIB = 2
PERF_S = 1.0
"""perf writes what it has four times in it."""


@dataclass(frozen=True)
class Outcome:
    """What a fault did."""

    fault: str
    hurt: bool = False
    """The program did not do all that it would have done, or its exit code was not passed on."""
    lost: int = 0
    """Records before the end of the recording, or before the kill, that are not kept."""
    kept: int = 0
    left: bool = False
    """A setting of the kernel is not what it was, or a folder is left."""


@dataclass
class Case:
    """A capture of the writer with a fault."""

    disk: Disk
    folder: Path
    rng: np.random.Generator
    output: Path
    options: tuple[str, ...] = TRACER
    writes: int = WRITES

    def start(self) -> subprocess.Popen[str]:
        """Start the capture and wait until the writer has begun."""
        names = f"FIRST, WRITES = {FIRST}, {WRITES}"
        (self.folder / "writer.py").write_text(names + WRITER)
        program = (sys.executable, str(self.folder / "writer.py"), f"{self.disk.device}p3")
        words = [*CAPTURE, self.disk.device, *self.options, "-o", str(self.output), "--"]
        running = subprocess.Popen(
            [*words, *program, str(self.writes), str(self.folder)],
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "messages").open("w"),
            text=True,
        )
        machine.wait_for(lambda: self.done() > 0 or running.poll() is not None)
        return running

    def done(self) -> int:
        """Return how many writes the writer has counted."""
        try:
            return int.from_bytes((self.folder / "count").read_bytes(), "little")
        except FileNotFoundError:
            return 0

    def wait_a_while(self) -> None:
        time.sleep(self.rng.uniform(0, 0.3))

    def ended_whole(self) -> bool:
        """Wait for the writer; return whether it came to its end."""
        with suppress(AssertionError):
            machine.wait_for((self.folder / "whole").exists)
        return (self.folder / "whole").exists()

    def places(self, output: Path) -> list[int]:
        """Return which writes of the writer a capture has, in its order; none if it is empty."""
        records = [*output.glob("*.blktrace.*"), *output.glob("*.perf.txt")]
        if not any(path.stat().st_size for path in records):
            return []
        folder, _ = parse([output], self.folder / f"parsed-{output.name}")
        rows = traces.requests(folder)
        part = int(Path(f"/sys/class/block/{self.disk.name}p3/start").read_text())
        rows = rows.filter(
            pc.and_(pc.equal(rows["operation"], "write"), pc.equal(rows["length_bytes"], 4096))
        )
        sectors = rows["sector"].to_numpy() - part - FIRST * 8
        size = WRITES * 8
        inside = sectors[(sectors >= 0) & (sectors < size)]
        return [int(sector) // 8 for sector in inside]


def gaps(places: list[int], least: int) -> int:
    """Return how many of the first places are missing: all to the last, and `least` at least."""
    there = set(places)
    return sum(place not in there for place in range(max([least, *(one + 1 for one in places)])))


def recovered(*folders: Path) -> None:
    done = subprocess.run(
        [*CAPTURE, "--recover", *map(str, folders)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def by_signal(case: Case, number: signal.Signals) -> Outcome:
    running = case.start()
    case.wait_a_while()
    running.send_signal(number)
    code = running.wait(machine.TIMEOUT_S)
    hurt = not case.ended_whole() or code != (42 if case.done() < WRITES else code)
    places = case.places(case.output)
    return Outcome(f"signal {number.name}", hurt, gaps(places, case.done()), len(places))


def by_kill(case: Case, *, booted: bool = False) -> Outcome:
    """Kill the tool; what the kernel goes on to record is recovered, or lost with it by a boot."""
    running = case.start()
    case.wait_a_while()
    before = 0 if booted else WRITES
    running.kill()
    running.wait()
    whole = case.ended_whole()
    hurt = not whole or case.done() != WRITES
    unfinished = case.output.with_name(case.output.name + ".unfinished")
    if booted:
        _boot(case, unfinished)
    recovered(*([unfinished] if booted else []))
    places = case.places(case.output)
    return Outcome("boot" if booted else "kill", hurt, gaps(places, before), len(places))


def _boot(case: Case, unfinished: Path) -> None:
    """Let the folder look as after another boot, whose kernel knows nothing of the capture."""
    (case.disk.switch).write_text("0")
    manifest = unfinished / "capture.json"
    lines = manifest.read_text().splitlines(keepends=True)
    manifest.write_text(
        "".join('  "boot_id": "another",\n' if '"boot_id"' in line else line for line in lines)
    )


def by_kill_at_the_end(case: Case) -> Outcome:
    """Kill the tool while it writes its files, or just before."""
    running = case.start()
    case.ended_whole()
    time.sleep(case.rng.uniform(0, 0.15))
    running.kill()
    running.wait()
    if not case.output.exists():
        recovered()
    places = case.places(case.output)
    return Outcome("kill at the end", case.done() != WRITES, gaps(places, WRITES), len(places))


def by_full_disk(case: Case, *, at_once: bool) -> Outcome:
    """Let the output's disk be full, by and by or all at once by somebody else."""
    with small_file_system(case.folder / "small", mib=SMALL_MIB) as small:
        case.output = small / "trace"
        filler = small / "filler"
        filler.write_bytes(bytes(0 if at_once else (SMALL_MIB << 20) * 3 // 4))
        running = case.start()
        case.wait_a_while()
        if at_once:
            fill(filler)
        code = running.wait(machine.TIMEOUT_S)
        hurt = not case.ended_whole() or case.done() != WRITES or code not in (3, 7)
        filler.unlink()
        if not case.output.exists():
            recovered(case.output.with_name("trace.unfinished"))
        places = case.places(case.output)
        left = [path.name for path in small.iterdir()] != ["trace"]
    kind = "disk filled at once" if at_once else "disk full"
    return Outcome(kind, hurt, gaps(places, 1), len(places), left)


def by_lost_tracer(case: Case) -> Outcome:
    """Let somebody else end the kernel's trace of the disk."""
    running = case.start()
    case.wait_a_while()
    case.disk.switch.write_text("0")
    code = running.wait(machine.TIMEOUT_S)
    hurt = not case.ended_whole() or case.done() != WRITES or code != 7
    places = case.places(case.output)
    return Outcome("trace ended", hurt, gaps(places, 1), len(places))


def by_second_capture(case: Case) -> Outcome:
    """Start another while this one runs, whose program goes on until it is asked to end."""
    case = replace(case, writes=1000 * WRITES)
    running = case.start()
    case.wait_a_while()
    other = machine.run_capture(
        case.disk.device, *TRACER, "-o", case.folder / "second", "--", "true", code=None
    )
    running.send_signal(signal.SIGINT)
    code = running.wait(machine.TIMEOUT_S)
    hurt = other.returncode != 1 or code != 42 or not case.ended_whole()
    places = case.places(case.output)
    return Outcome("second capture", hurt, gaps(places, min(case.done(), WRITES)), len(places))


def by_pause(case: Case) -> Outcome:
    """Let the tool stand still for a while, as a machine without memory does."""
    running = case.start()
    running.send_signal(signal.SIGSTOP)
    case.wait_a_while()
    running.send_signal(signal.SIGCONT)
    code = running.wait(machine.TIMEOUT_S)
    places = case.places(case.output)
    hurt = code != 7 or case.done() != WRITES
    return Outcome("pause", hurt, gaps(places, WRITES), len(places))


def by_killed_perf(case: Case) -> Outcome:
    """Kill the program that records: what it had a second before is kept, and it is said.

    The program goes on until it is asked to end, so that the kill is amid the capture.
    """
    case = replace(case, options=("--source", "perf"), writes=1000 * WRITES)
    running = case.start()
    case.wait_a_while()
    sure = case.done()
    time.sleep(PERF_S)
    for pid in machine.processes("perf", "record", "-q"):
        if machine.parent_of(pid) == running.pid:
            os.kill(pid, signal.SIGKILL)
    before = case.done()
    machine.wait_for(lambda: case.done() > before + WRITES or running.poll() is not None)
    running.send_signal(signal.SIGINT)
    code = running.wait(machine.TIMEOUT_S)
    said = "ended by itself" in (case.folder / "messages").read_text()
    hurt = not case.ended_whole() or case.done() <= before + WRITES or not said or code != 42
    there = set(case.places(case.output) if case.output.exists() else [])
    lost = sum(place not in there for place in range(min(sure, WRITES)))
    return Outcome("perf killed", hurt, lost, len(there))


FAULTS: dict[str, Callable[[Case], Outcome]] = {
    **{
        number.name: lambda case, number=number: by_signal(case, number)  # type: ignore[misc]
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    },
    "kill": by_kill,
    "boot": lambda case: by_kill(case, booted=True),
    "kill at the end": by_kill_at_the_end,
    "disk full": lambda case: by_full_disk(case, at_once=False),
    "disk filled at once": lambda case: by_full_disk(case, at_once=True),
    "trace ended": by_lost_tracer,
    "second capture": by_second_capture,
    "pause": by_pause,
    "perf killed": by_killed_perf,
}


def fault(name: str, disk: Disk, folder: Path, *, seed: int) -> Outcome:
    """Do a capture with a fault of this name, at a moment by the seed."""
    folder.mkdir(parents=True, exist_ok=True)
    before = machine.tracing_settings()
    case = Case(disk, folder, np.random.default_rng(seed), folder / "trace")
    found = FAULTS[name](case)
    settings = machine.tracing_settings() != before or disk.is_traced()
    folders = [path for path in folder.iterdir() if path.name.endswith(".unfinished")]
    return replace(found, left=found.left or settings or bool(folders))
