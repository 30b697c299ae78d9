"""What the dax engine adds to a durable store of 4 KiB."""

import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from tests.bench.harness import MEMORY, Bench, tracekit
from tests.replay.program import record, write_plan
from tracekit._native import program_path
from tracekit.plans.block_plan import WRITE

PLACES = 16_384
SCRIPT = """set -e
for round in $(seq $ROUNDS); do
  tracekit-replay a.plan --engine dax --target $FOLDER/t --keep --pace fast > $OUT/$round.json
  ./store $FOLDER/t $COPIES > $OUT/$round.alone
  rm $FOLDER/t
done
"""
"""The engine comes first: the file that it has laid out and kept is the peer's too."""


def run_here(place: Path, folder: Path, values: dict[str, str]) -> Path:
    """Run the rounds on this machine, on a file of `folder`, and return where the results are."""
    out = place / "out"
    out.mkdir()
    with tempfile.TemporaryDirectory(dir=folder) as data:
        path = f"{program_path().parent}:{os.environ['PATH']}"
        values = {**values, "PATH": path, "FOLDER": data, "OUT": str(out)}
        subprocess.run(["sh", "-c", SCRIPT], cwd=place / "share", env=values, check=True)
    return out


def run_in_lab(out: Bench, place: Path, values: dict[str, str], *, is_exact: bool) -> Path:
    """Run the rounds in a guest, on a file of its DAX file system."""
    words = " ".join(f"{name}={value}" for name, value in values.items())
    script = f"{words} FOLDER=$LAB_DAX OUT=$LAB_OUT\n{SCRIPT}"
    command = ["lab", "run", "--pmem", "256MiB", *(["--exact"] if is_exact else [])]
    command += ["--share", str(place / "share"), "-o", str(place / "out"), "--json"]
    ran = tracekit(*command, "--", "sh", "-c", script)
    out.note(f"in a guest by {json.loads(ran.output)['accelerator']}")
    return place / "out/files"


def show(out: Bench, results: Path, rounds: int, copies: int) -> None:
    """Print the peer's time, the service time and the time a request: medians of the rounds."""
    numbers = range(1, rounds + 1)
    summaries = [json.loads((results / f"{number}.json").read_text()) for number in numbers]
    alone = [float((results / f"{number}.alone").read_text()) for number in numbers]
    service = [one["operations"][0]["service"] for one in summaries]
    measured = {
        "copy and fence alone": alone,
        "service, p50": [float(one["p50_ns"]) for one in service],
        "service, mean": [float(one["mean_ns"]) for one in service],
        "all": [one["timing"]["elapsed_ns"] / copies for one in summaries],
    }
    base = statistics.median(alone)
    for name, values in measured.items():
        ns = statistics.median(values)
        spread = {"least": min(values), "most": max(values)}
        out.row(name, ns=ns, **spread, added_ns=ns - base, ratio=ns / base)
    out.note(f"a reading of the clock: {summaries[0]['clock']['read_ns']} ns")
    features = summaries[0]["engine"]["features"].items()
    out.note(f"by {', '.join(name for name, is_used in features if is_used)}")


def bench(
    out: Bench, *, copies: int = 200_000, rounds: int = 7, place: Path | None = None,
    lab: bool = False, exact: bool = False,
) -> None:  # fmt: skip
    """Beside it, in the same run, a loop of copies and fences on a mapping of the same file.

    The file is in `place` (/dev/shm), with `lab` on the DAX file system of a guest of `tracekit
    lab`; `exact` takes 2 ns for each of the guest's instructions.
    """
    store = out.compiled("store.c", "-static")
    values = {"ROUNDS": str(rounds), "COPIES": str(copies)}
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        (here / "share").mkdir()
        store.rename(here / "share/store")
        rows = [record(WRITE, 8 * (n * 7919 % PLACES), 8) for n in range(copies)]
        write_plan(here / "share/a.plan", rows)
        if lab:
            results = run_in_lab(out, here, values, is_exact=exact)
        else:
            results = run_here(here, place or MEMORY, values)
        show(out, results, rounds, copies)
