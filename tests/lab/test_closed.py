"""A closed loop on the device of its trace takes as long as that, in a guest of exact times."""

import json
from pathlib import Path

import pytest

from tests.command_line import succeed
from tests.lab.guests import run_script
from tracekit.replay.compiler import PlanOptions, compile_plan
from tracekit.store import TraceFolder

pytestmark = pytest.mark.slow
LATENCIES = {"flash": 50_000, "disk": 2_000_000}
MIB = 64
LOAD = f"""
import mmap, os, random, sys, time

def reader(disk, chance, room):
    os.preadv(disk, [memoryview(room)[:4096]], 4096 * chance.randrange({MIB << 8}))

def writer(disk, chance, room):
    os.pwritev(disk, [memoryview(room)[:16384]], 4096 * chance.randrange({(MIB << 8) - 4}))
    if chance.random() < 0.125:
        os.fsync(disk)

path, seed = sys.argv[1], 1
for work, times, think_s in ((reader, 500, 0.0003), (reader, 300, 0.0005), (writer, 300, 0.001)):
    seed += 1
    if os.fork() == 0:
        disk, chance = os.open(path, os.O_RDWR | os.O_DIRECT), random.Random(seed)
        room = mmap.mmap(-1, 16384)
        for _ in range(times):
            work(disk, chance, room)
            time.sleep(chance.expovariate(1 / think_s))
        os._exit(0)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""
"""Two readers and one that writes and syncs, with think times."""
MAKE = f"""
set -e
make() {{  # NAME NS: a disk in memory that interrupts so long after
  folder=/sys/kernel/config/nullb/$1
  mkdir $folder
  echo {MIB} > $folder/size
  for switch in memory_backed cache_size; do echo 1 > $folder/$switch; done
  echo 4096 > $folder/blocksize
  echo 2 > $folder/irqmode
  echo $2 > $folder/completion_nsec
  echo 1 > $folder/power
}}
"""
TRACE = """
trace() {  # NAME
  blktrace -d /dev/$1 -D $LAB_OUT -o $1 > $LAB_OUT/$1.log & tracer=$!
  while [ ! -e /sys/kernel/debug/block/$1/trace0 ]; do sleep 0.1; done
  sleep 0.5
  python3 $LAB_SHARE/load.py /dev/$1
  kill -INT $tracer
  wait $tracer
}
"""
REPLAY = """
replay() {  # NAME
  tracekit-replay $LAB_SHARE/$1.plan --pace closed --engine io_uring --target /dev/$1 \
    --write-to "$(cat /sys/block/$1/dev):$(cat /sys/block/$1/size)" --summary $LAB_OUT/$1.json
}
"""


def in_guest(place: Path, step: str, functions: str) -> Path:
    """Make the disks and do a step for each of them; return what the guest brought."""
    lines = [f"make {name} {ns}\n{step} {name}\n" for name, ns in LATENCIES.items()]
    return run_script(place, MAKE + functions + "".join(lines), "--exact", out=step)


def test_it_takes_as_long_as_the_trace(tmp_path: Path, place: Path) -> None:
    # GIVEN a load of three processes, traced on a fast and on a slow disk
    (place / "share/load.py").write_text(LOAD)
    traced = in_guest(place, "trace", TRACE)
    for name in LATENCIES:
        capture = tmp_path / name
        capture.mkdir()
        for file in traced.glob(f"{name}.blktrace.*"):
            file.rename(capture / file.name)
        folder = tmp_path / f"{name}.trace"
        succeed("parse", capture, "-o", folder)
        compile_plan(TraceFolder(folder), place / f"share/{name}.plan", options=PlanOptions())
    # WHEN the traces are replayed in closed loops on disks like these
    again = in_guest(place, "replay", REPLAY)
    # THEN each takes as long as its trace
    for name in LATENCIES:
        told = json.loads((again / f"{name}.json").read_text())
        assert told["counts"]["done"] == told["plan"]["requests"] > 1100
        ratio = told["timing"]["actual_duration_ns"] / told["plan"]["duration_ns"]
        assert ratio == pytest.approx(1, abs=0.05), name
