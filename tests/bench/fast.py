"""As fast as possible beside fio, and what a request costs."""

import os
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from tests.bench.harness import MEMORY, Bench, fio, needs, needs_root
from tests.replay.disk import loop
from tests.replay.program import record, run, write_plan
from tracekit.plans.block_plan import READ

MIB = 512
COST_REQUESTS = 1_000_000
DEPTH = 32
COST_ROUNDS = 7
LOG = ("--write_lat_log=lat", "--log_offset=1")


def write_file(path: Path) -> None:
    """Make a file without holes, so that reads reach the device."""
    block = np.random.default_rng(1).bytes(1 << 20)
    with path.open("wb") as out:
        for _ in range(MIB):
            out.write(block)
        os.fsync(out.fileno())


def ours(plan: Path, target: Path) -> float:
    """Return our requests a second, every completion logged."""
    depth = ("--depth", str(DEPTH), "--direct", "on", "--no-calibration")
    ran = run(plan, "--target", str(target), "--engine", "io_uring", "--pace", "fast", *depth)
    if ran.code != 0:
        raise SystemExit(ran.messages)
    return float(ran.summary["timing"]["requests_per_second"])


def by_fio(target: Path, place: Path, requests: int, *arguments: str) -> float:
    """Return fio's requests a second."""
    words = [f"--filename={target}", "--direct=1", "--ioengine=io_uring", "--rw=randread"]
    words += ["--bs=4k", f"--iodepth={DEPTH}", "--fixedbufs", "--registerfiles", "--readonly"]
    words += ["--norandommap", f"--size={MIB}m", f"--io_size={requests * 4096}", *arguments]
    return float(fio("--name=a", *words, cwd=place)[0]["read"]["iops"])


def compare(out: Bench, case: str, plan: Path, target: Path, *, rounds: int, count: int) -> None:
    """Compare with fio without a log of its own and with one."""
    needs("fio")
    ways = {
        "fio": lambda: by_fio(target, out.scratch, count),
        "fio that logs": lambda: by_fio(target, out.scratch, count, *LOG),
        "tracekit, which logs": lambda: ours(plan, target),
    }
    rates = out.compare(case, ways, rounds=rounds, unit="IOPS")
    logs = zip(rates["tracekit, which logs"], rates["fio that logs"], strict=True)
    out.row(f"{case}: to fio that logs", ratio=median(own / peer for own, peer in logs))


def costs(out: Bench, plan: Path, requests: int) -> None:
    """Print the cost of a request on the null engine: all due at once, and as fast as possible."""
    for name, pace in (("timed", "trace"), ("as fast as possible", "fast")):
        took = [
            run(plan, "--engine", "null", "--pace", pace, "--no-calibration").summary["timing"]
            for _ in range(COST_ROUNDS)
        ]
        costs_ns = [one["elapsed_ns"] / requests for one in took]
        out.row(f"{name}, null engine", ns_a_request=median(costs_ns), least=min(costs_ns))


def bench(
    out: Bench, *, requests: int = 50_000, rounds: int = 25, place: Path | None = None
) -> None:
    """Random reads of 4 KiB, 32 in flight, by io_uring with registered files and O_DIRECT.

    On a loop device over a file in memory (root) and on a file of `place`. This program logs every
    completion. Many short rounds by turns.
    """
    sectors = np.random.default_rng(2).integers(0, MIB << 20 >> 12, requests) * 8
    rows = [record(READ, int(sector), 8) for sector in sectors]
    plan = write_plan(out.scratch / "a.plan", rows, needed_sectors=MIB << 20 >> 9)
    repeated = rows * (COST_REQUESTS // requests)
    costs(out, write_plan(out.scratch / "b.plan", repeated), len(repeated))
    with tempfile.TemporaryDirectory(dir=MEMORY) as memory, out.part("loop device"):
        needs_root()
        write_file(Path(memory) / "memory")
        with loop(Path(memory) / "memory") as device:
            compare(out, "loop device", plan, device, rounds=rounds, count=requests)
    with tempfile.TemporaryDirectory(dir=place or out.scratch) as disk, out.part("file"):
        write_file(Path(disk) / "target")
        compare(out, "file", plan, Path(disk) / "target", rounds=rounds, count=requests)
