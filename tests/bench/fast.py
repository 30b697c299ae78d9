"""As fast as possible beside fio, and what a request costs: `python -m tests.bench.fast [FOLDER]`.

Random reads of 4 KiB, 32 in flight, by io_uring with registered files and buffers and O_DIRECT, on
a loop device over a file in memory (needs root) and on a file of FOLDER. This program logs every
completion; fio runs without a log of its own and with one (`write_lat_log`). All three in turn, in
many short rounds that begin with another of them each time; ratios of each round, then their
median and the middle half. First the cost of a request by itself, on the null engine: timed (all
of them due at once) and as fast as possible.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tests.replay.disk import call
from tests.replay.program import READ, record, run, write_plan

MIB = 512
REQUESTS = 50_000
COST_REQUESTS = 1_000_000
DEPTH = 32
ROUNDS = 25
COST_ROUNDS = 7
LOG = ("--write_lat_log=lat", "--log_offset=1")


def write_file(path: Path) -> Path:
    """Make a file without holes, so that reads reach the device."""
    block = np.random.default_rng(1).bytes(1 << 20)
    with path.open("wb") as out:
        for _ in range(MIB):
            out.write(block)
        os.fsync(out.fileno())
    return path


def ours(plan: Path, target: Path) -> float:
    """Return our requests a second, every completion logged."""
    depth = ("--depth", str(DEPTH), "--direct", "on", "--no-calibration")
    ran = run(plan, "--target", str(target), "--engine", "io_uring", "--pace", "fast", *depth)
    if ran.code != 0:
        raise SystemExit(ran.messages)
    return float(ran.summary["timing"]["requests_per_second"])


def fio(place: Path, target: Path, *arguments: str) -> float:
    """Return fio's requests a second."""
    told = place / "fio.json"
    command = ["fio", "--name=a", f"--filename={target}", "--direct=1", "--ioengine=io_uring"]
    command += ["--rw=randread", "--bs=4k", f"--iodepth={DEPTH}", "--fixedbufs", "--registerfiles"]
    command += ["--norandommap", f"--size={MIB}m", f"--io_size={REQUESTS * 4096}", "--readonly"]
    command += ["--output-format=json", f"--output={told}", *arguments]
    subprocess.run(command, check=True, capture_output=True, cwd=place)
    text = told.read_text()
    return float(json.loads(text[text.index("{") :])["jobs"][0]["read"]["iops"])


@contextmanager
def loop_in_memory(place: Path) -> Iterator[Path]:
    """Yield a loop device over a file in memory."""
    device = call("losetup", "--find", "--show", str(write_file(place / "memory")))
    try:
        yield Path(device)
    finally:
        call("losetup", "--detach", device)


def compare(name: str, plan: Path, target: Path, place: Path) -> None:
    """Print our rate and the ratios to fio's."""
    programs: list[Callable[[], float]] = [
        lambda: ours(plan, target),
        lambda: fio(place, target),
        lambda: fio(place, target, *LOG),
    ]
    rounds = []
    for number in range(ROUNDS):
        order = [(number + turn) % 3 for turn in range(3)]
        rates = {which: programs[which]() for which in order}
        rounds.append([rates[which] for which in range(3)])
    print(f"{name}: {statistics.median(row[0] for row in rounds):,.0f} requests/s", end="")
    for peer, what in ((1, "fio"), (2, "fio that logs")):
        low, half, high = statistics.quantiles([row[0] / row[peer] for row in rounds], n=4)
        print(f", {half:.3f} of {what} ({low:.2f} to {high:.2f})", end="")
    print(flush=True)


def costs(plan: Path) -> None:
    """Print the cost of a request on the null engine."""
    for name, pace in (("timed", "trace"), ("as fast as possible", "fast")):
        took = [
            run(plan, "--engine", "null", "--pace", pace, "--no-calibration").summary["timing"]
            for _ in range(COST_ROUNDS)
        ]
        costs_ns = [one["elapsed_ns"] / COST_REQUESTS for one in took]
        half, least = statistics.median(costs_ns), min(costs_ns)
        print(f"{name}, null engine, every completion logged: {half:.0f} ns a request", end="")
        print(f" (at best {least:.0f})", flush=True)


def main() -> None:
    """Compare on both targets."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    sectors = np.random.default_rng(2).integers(0, MIB << 20 >> 12, REQUESTS) * 8
    with (
        tempfile.TemporaryDirectory(dir=folder) as disk,
        tempfile.TemporaryDirectory(dir="/dev/shm") as memory,
    ):
        place = Path(disk)
        rows = [record(READ, int(sector), 8) for sector in sectors]
        plan = write_plan(place / "a.plan", rows, needed_sectors=MIB << 20 >> 9)
        costs(write_plan(place / "b.plan", rows * (COST_REQUESTS // REQUESTS)))
        with loop_in_memory(Path(memory)) as device:
            compare("loop device over memory", plan, device, place)
        compare("file on a disk", plan, write_file(place / "target"), place)


if __name__ == "__main__":
    main()
