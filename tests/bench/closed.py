"""Does a closed loop on the device of the trace take as long?"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.harness import Bench, needs, needs_root, run, tracekit
from tests.replay.disk import loop
from tests.replay.program import record, write_plan
from tests.replay.program import run as replay
from tracekit.plans.block_plan import READ, WRITE
from tracekit.replay.compiler import Waits
from tracekit.replay.source import ROWS

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


DEVICE = "read_setup_ns=100000,write_setup_ns=300000,read_bytes_s=500000000"
DEVICE += ",write_bytes_s=300000000,flush_ns=1000000,fua_ns=0,lanes=2"
CLIENTS, THINK_NS = 4, 400_000


def emulated(out: Bench, requests: int, rounds: int) -> None:
    """Print the ratio for a device whose service times are always the same.

    Requests of four clients with think times are replayed as they come, what was seen is the trace,
    and that is replayed in a closed loop.
    """
    random = np.random.default_rng(1)
    # Each client's requests as an open loop would have them; the run says how long they take.
    gaps = random.exponential(THINK_NS, (CLIENTS, requests // CLIENTS))
    at = np.sort(np.cumsum(gaps, axis=1).ravel()).astype(int)
    rows = [
        record(int(random.choice([READ, WRITE])), 8 * int(random.integers(0, 1 << 16)), 8, at_ns=ns)
        for ns in at.tolist()
    ]
    engine = ("--engine", "emulated", "--emulate", DEVICE)
    seen = replay(write_plan(out.scratch / "open.plan", rows), *engine).rows()
    seen = seen[np.argsort(seen["request_id"])]
    waits = np.zeros(len(seen), ROWS)
    waits["time_ns"], waits["complete_ns"] = seen["submit_ns"], seen["complete_ns"]
    after, think = Waits().add(waits)
    again = [
        record(row[4], row[1], row[3], at_ns=int(ns), after=int(steps), think_ns=int(gap))
        for row, ns, steps, gap in zip(rows, seen["submit_ns"], after, think, strict=True)
    ]
    plan = write_plan(out.scratch / "closed.plan", again)
    whole = int(seen["submit_ns"][-1] - seen["submit_ns"][0])
    for _ in range(rounds):
        timing = replay(plan, *engine, "--pace", "closed").summary["timing"]
        out.row("emulated", requests=len(rows), of_trace=timing["actual_duration_ns"] / whole)


def real(out: Bench, device: str, seconds: int, rounds: int) -> None:
    """Trace the device and replay there."""
    job, report = out.scratch / "job.fio", out.scratch / "fio.json"
    job.write_text(JOBS.format(device=device, seconds=seconds))
    fio = ("fio", job, f"--output={report}", "--output-format=json")
    capture, trace = out.scratch / "capture", out.scratch / "trace"
    shutil.rmtree(capture, ignore_errors=True)
    tracekit("capture", device, "-o", capture, "--", *fio)
    traced = requests_of(report)
    tracekit("parse", capture, "-o", trace, "--force")
    words = ("replay", trace, "--json", "--target", device)
    plan = json.loads(tracekit(*words, "--dry-run").output)
    confirmed = (*words, "--write-to", plan["targets"][0]["confirm_with"])
    for _ in range(rounds):
        again: dict[str, Any] = json.loads(tracekit(*confirmed, "--pace", "closed").output)
        ratio = again["timing"]["actual_duration_ns"] / again["plan"]["duration_ns"]
        run(fio)
        ratios = {"of_trace": ratio, "fio_again": traced / requests_of(report)}
        wake_up = {"wake_up_us": again["clock"]["wake_up_ns"] / 1000}
        out.row("loop device", requests=again["counts"]["done"], **ratios, **wake_up)


def requests_of(report: Path) -> int:
    """Return how many reads and writes fio did."""
    jobs = json.loads(report.read_text())["jobs"]
    return sum(job[kind]["total_ios"] for job in jobs for kind in ("read", "write"))


def bench(out: Bench, *, requests: int = 20_000, seconds: int = 8, rounds: int = 5) -> None:
    """First on an emulated device, whose speed others cannot change; then for real.

    That needs root, a loop device and fio: two processes with think times, one of them with fsyncs,
    are traced, and the trace is replayed there. The device's file has data everywhere, as a hole is
    read without the disk. Beside each round fio runs again, so that one sees how far the device is
    from itself.
    """
    emulated(out, requests, rounds)
    with out.part("loop device"), tempfile.TemporaryDirectory(dir=out.scratch) as place:
        needs_root()
        needs("fio")
        disk = Path(place) / "disk"
        run(["dd", "if=/dev/urandom", f"of={disk}", "bs=1M", "count=512", "oflag=direct"])
        with loop(disk, "--direct-io=on") as device:
            real(out, str(device), seconds, rounds)
