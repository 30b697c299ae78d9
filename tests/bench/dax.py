"""What the dax engine adds to a durable store of 4 KiB: `python -m tests.bench.dax [FOLDER]`.

Beside it, in the same run, a loop of copies and fences on a mapping of the same file: in memory
(/dev/shm) unless another folder is named. `--lab` does it on the DAX file system of a guest of
`tracekit lab`, `--lab --exact` with 2 ns for each of the guest's instructions.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.replay.program import WRITE, record, write_plan
from tracekit._native import program_path

COPIES = 200_000
PLACES = 16_384
ROUNDS = 7
SCRIPT = """set -e
for round in $(seq $ROUNDS); do
  tracekit-replay a.plan --engine dax --target $FOLDER/t --keep --pace fast > $OUT/$round.json
  ./store $FOLDER/t $COPIES > $OUT/$round.alone
  rm $FOLDER/t
done
"""
"""The engine comes first: the file that it has laid out and kept is the peer's too."""


def run_here(place: Path, folder: Path) -> Path:
    """Run the rounds on this machine, on a file of `folder`, and return where the results are."""
    out = place / "out"
    out.mkdir()
    with tempfile.TemporaryDirectory(dir=folder) as data:
        path = f"{program_path().parent}:{os.environ['PATH']}"
        values = {"PATH": path, "ROUNDS": str(ROUNDS), "COPIES": str(COPIES)}
        values |= {"FOLDER": data, "OUT": str(out)}
        subprocess.run(["sh", "-c", SCRIPT], cwd=place / "share", env=values, check=True)
    return out


def run_in_lab(place: Path, *, is_exact: bool) -> Path:
    """Run the rounds in a guest, on a file of its DAX file system."""
    script = f"ROUNDS={ROUNDS} COPIES={COPIES} FOLDER=$LAB_DAX OUT=$LAB_OUT\n{SCRIPT}"
    command = [sys.executable, "-m", "tracekit", "lab", "run", "--pmem", "256MiB"]
    command += ["--exact"] if is_exact else []
    command += ["--share", str(place / "share"), "-o", str(place / "out"), "--json"]
    ran = subprocess.run(
        [*command, "--", "sh", "-c", script], check=True, stdout=subprocess.PIPE, text=True
    )
    print(f"in a guest by {json.loads(ran.stdout)['accelerator']}")
    return place / "out/files"


def tell(out: Path) -> None:
    """Print service time, time a request and the peer's: medians of the rounds."""
    rounds = range(1, ROUNDS + 1)
    told = [json.loads((out / f"{number}.json").read_text()) for number in rounds]
    alone = [float((out / f"{number}.alone").read_text()) for number in rounds]
    service = [one["operations"][0]["service"] for one in told]
    measured = {
        "copy and fence alone": alone,
        "service, p50": [float(one["p50_ns"]) for one in service],
        "service, mean": [float(one["mean_ns"]) for one in service],
        "all": [one["timing"]["elapsed_ns"] / COPIES for one in told],
    }
    base = statistics.median(alone)
    for name, values in measured.items():
        value = statistics.median(values)
        span = f"{min(values):.0f} to {max(values):.0f}"
        print(f"{name}: {value:.0f} ns ({span}), {value - base:+.0f} ns, {value / base:.2f}x")
    print(f"a reading of the clock: {told[0]['clock']['read_ns']} ns")
    print(f"by {', '.join(k for k, v in told[0]['engine']['features'].items() if v)}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("folder", nargs="?", type=Path, default=Path("/dev/shm"))  # noqa: S108 - only a benchmark
    where.add_argument("--lab", action="store_true", help="on the DAX file system of a guest")
    parser.add_argument("--exact", action="store_true", help="time by instructions, with --lab")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "share").mkdir()
        source = Path(__file__).with_name("store.c")
        subprocess.run(["cc", "-O2", "-static", "-o", place / "share/store", source], check=True)
        rows = [record(WRITE, 8 * (n * 7919 % PLACES), 8) for n in range(COPIES)]
        write_plan(place / "share/a.plan", rows)
        if options.lab:
            tell(run_in_lab(place, is_exact=options.exact))
        else:
            tell(run_here(place, options.folder))


if __name__ == "__main__":
    main()
