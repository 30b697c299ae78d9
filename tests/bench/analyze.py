"""Time and peak memory of each analysis, each in a process of its own."""

import statistics
import time
from pathlib import Path

from tests.bench.harness import Bench, isolated
from tests.bench.inputs import classified
from tracekit import query
from tracekit.analyze import ANALYSES, CHECKS
from tracekit.store import TraceFolder


def measure(trace: Path, name: str, memory_mib: int) -> tuple[int, float]:
    """Return rows and seconds of one analysis."""
    with query.connect(TraceFolder(trace), memory_mib=memory_mib) as connection:
        began_s = time.perf_counter()
        return len(query.run(connection, name)), time.perf_counter() - began_s


def bench_analyze(
    out: Bench, *, trace: Path | None = None, requests: int = 2_000_000,
    memory: int = query.DEFAULT_MEMORY_MIB, rounds: int = 1,
) -> None:  # fmt: skip
    """Run each analysis of a classified trace folder: `trace`, or that of a synthetic capture."""
    folder = trace or classified(out, requests)
    for name in (*ANALYSES, *CHECKS):
        runs = [isolated(measure, folder, name, memory) for _ in range(rounds)]
        seconds = statistics.median(seconds for (_, seconds), _ in runs)
        peak_mib = max(used.peak_mib for _, used in runs)
        out.row(name, rows=runs[0][0][0], wall_s=seconds, peak_mib=peak_mib)
