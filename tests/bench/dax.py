"""What the dax engine adds to a durable store of 4 KiB: `python -m tests.bench.dax [FOLDER]`.

Beside it, in the same run, a loop of copies and fences on a mapping of a file of the same folder:
memory (/dev/shm) unless another one is named, such as that of a DAX file system.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.replay.program import WRITE, record, run, write_plan

COPIES = 200_000
PLACES = 16_384
ROUNDS = 7


def main() -> None:
    """Print service time, time a request and the peer's, medians of seven rounds in turn."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "/dev/shm")  # noqa: S108 - only a benchmark
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory(dir=folder) as data:
        peer = Path(place) / "store"
        source = Path(__file__).with_name("store.c")
        subprocess.run(["cc", "-O2", "-o", peer, source], check=True)
        rows = [record(WRITE, 8 * (n * 7919 % PLACES), 8) for n in range(COPIES)]
        plan = write_plan(Path(place) / "a.plan", rows)
        alone, service, whole = [], [], []
        for _ in range(ROUNDS):
            told = subprocess.run(
                [peer, f"{data}/peer", str(COPIES)], check=True, capture_output=True, text=True
            )
            alone.append(float(told.stdout))
            ran = run(plan, "--engine", "dax", "--target", f"{data}/t", "--pace", "fast")
            service.append(float(ran.summary["operations"][0]["service"]["mean_ns"]))
            whole.append(ran.summary["timing"]["elapsed_ns"] / COPIES)
    base = statistics.median(alone)
    for name, values in (("copy and fence alone", alone), ("service", service), ("all", whole)):
        value = statistics.median(values)
        print(f"{name}: {value:.0f} ns, {value - base:+.0f} ns, {value / base:.2f}x")
    print(f"by {', '.join(k for k, v in ran.summary['engine']['features'].items() if v)}")


if __name__ == "__main__":
    main()
