"""Does a closed loop on the device of the trace take as long? `python -m tests.bench.closed`.

First on an emulated device, whose speed others cannot change: requests of four clients with think
times are replayed as they come, what was seen is the trace, and that is replayed in a closed loop.
Then for real, which needs root, a loop device and fio: two processes with think times, one of them
with fsyncs, are traced on the loop device, and the trace is replayed there. Its file has data
everywhere: a hole is read without the disk. Beside each round fio runs again, so that one sees how
far the device is from itself: as many requests take it that much more or less time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.replay.disk import call
from tests.replay.program import READ, WRITE, record, run, write_plan
from tracekit.replay.compiler import Waits
from tracekit.replay.source import ROWS

ROUNDS = 5
SECONDS = 8
JOBS = """\
[global]
filename={device}
direct=1
ioengine=psync
runtime={seconds}
time_based
size=512m
[reader]
rw=randread
bs=4k
thinktime=200
[writer]
rw=randwrite
bs=16k
thinktime=1000
fsync=8
"""


def tracekit(*arguments: str | Path) -> str:
    """Run a command of the product and return its output."""
    command = [sys.executable, "-m", "tracekit", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


DEVICE = "read_setup_ns=100000,write_setup_ns=300000,read_bytes_s=500000000"
DEVICE += ",write_bytes_s=300000000,flush_ns=1000000,fua_ns=0,lanes=2"
CLIENTS, REQUESTS, THINK_NS = 4, 20_000, 400_000


def emulated(folder: Path) -> None:
    """Print the ratio for a device whose service times are always the same."""
    random = np.random.default_rng(1)
    # Each client's requests as an open loop would have them; the run says how long they take.
    gaps = random.exponential(THINK_NS, (CLIENTS, REQUESTS // CLIENTS))
    at = np.sort(np.cumsum(gaps, axis=1).ravel()).astype(int)
    rows = [
        record(int(random.choice([READ, WRITE])), 8 * int(random.integers(0, 1 << 16)), 8, at_ns=ns)
        for ns in at.tolist()
    ]
    engine = ("--engine", "emulated", "--emulate", DEVICE)
    seen = run(write_plan(folder / "open.plan", rows), *engine).rows()
    seen = seen[np.argsort(seen["request_id"])]
    waits = np.zeros(len(seen), ROWS)
    waits["time_ns"], waits["complete_ns"] = seen["submit_ns"], seen["complete_ns"]
    after, think = Waits().add(waits)
    again = [
        record(row[4], row[1], row[3], at_ns=int(ns), after=int(steps), think_ns=int(gap))
        for row, ns, steps, gap in zip(rows, seen["submit_ns"], after, think, strict=True)
    ]
    plan = write_plan(folder / "closed.plan", again)
    whole = int(seen["submit_ns"][-1] - seen["submit_ns"][0])
    for _ in range(ROUNDS):
        told = run(plan, *engine, "--pace", "closed").summary
        ratio = told["timing"]["actual_duration_ns"] / whole
        print(f"emulated, {len(rows):,} requests: {ratio:.4f} of the traced time")


def main() -> None:
    """Print the ratio of the replay's duration to the trace's, for some rounds."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        emulated(folder)
        disk = folder / "disk"
        call("dd", "if=/dev/urandom", f"of={disk}", "bs=1M", "count=512", "oflag=direct")
        device = call("losetup", "--direct-io=on", "--find", "--show", str(disk))
        try:
            measure(folder, device)
        finally:
            call("losetup", "--detach", device)


def measure(folder: Path, device: str) -> None:
    """Trace the device and replay there."""
    job, told_by_fio = folder / "job.fio", folder / "fio.json"
    job.write_text(JOBS.format(device=device, seconds=SECONDS))
    fio = ("fio", job, f"--output={told_by_fio}", "--output-format=json")
    tracekit("capture", device, "-o", folder / "capture", "--", *fio)
    traced = requests(told_by_fio)
    tracekit("parse", folder / "capture", "-o", folder / "trace")
    target = ("--target", device)
    told = json.loads(tracekit("replay", folder / "trace", "--dry-run", "--json", *target))
    confirmed = (*target, "--write-to", told["targets"][0]["confirm_with"])
    for _ in range(ROUNDS):
        again: dict[str, Any] = json.loads(
            tracekit("replay", folder / "trace", "--pace", "closed", "--json", *confirmed)
        )
        ratio = again["timing"]["actual_duration_ns"] / again["plan"]["duration_ns"]
        wake_up_us = again["clock"]["wake_up_ns"] / 1000
        subprocess.run(fio, check=True)
        others = traced / requests(told_by_fio)
        print(
            f"{again['counts']['done']:,} requests: {ratio:.4f} of the traced time"
            f" (a wake-up of {wake_up_us:.1f} us taken off), fio again {others:.4f}"
        )


def requests(told_by_fio: Path) -> int:
    """Return how many reads and writes fio did."""
    jobs = json.loads(told_by_fio.read_text())["jobs"]
    return sum(job[kind]["total_ios"] for job in jobs for kind in ("read", "write"))


if __name__ == "__main__":
    main()
