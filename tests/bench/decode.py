"""`tracekit parse` beside `blkparse` on the same capture."""

import json

from tests.bench.harness import Bench, needs, run, tracekit
from tests.bench.inputs import CAPTURE, repeated


def bench(out: Bench, *, records: int = 10_000_000, rounds: int = 3) -> None:
    """Parse the sample capture, repeated with times and numbers that go on, one plain file a CPU.

    `blkparse` prints its default text to /dev/null; `tracekit parse` pairs the events and writes
    Parquet.
    """
    needs("blkparse", "blktrace")
    capture, count = repeated(out, records)
    trace = out.scratch / "trace"
    ways = {
        "blkparse": lambda: run(["blkparse", "-i", CAPTURE], cwd=capture),
        "tracekit parse": lambda: tracekit("parse", capture, "-o", trace, "--force"),
    }
    rates = {name: lambda way=way: count / way().wall_s / 1e6 for name, way in ways.items()}
    out.compare("wall time", rates, rounds=rounds, unit="M records/s")
    parsed = json.loads((trace / "trace.json").read_text())["counts"]["records"]
    if parsed != count:
        raise SystemExit(f"{parsed} of {count} records were parsed")
