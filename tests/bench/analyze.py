"""Time and peak memory of each analysis, each in a process of its own.

    python tests/bench/analyze.py TRACE [--memory 512] [--repeat 3]

TRACE is a classified trace folder, such as the one that tests/bench/pipeline.py leaves.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import time
from multiprocessing.queues import Queue
from pathlib import Path

from tracekit import query
from tracekit.analyze import ANALYSES, CHECKS
from tracekit.store import TraceFolder

Measured = tuple[int, float, float]


def measure(trace: Path, name: str, memory_mib: int, answers: Queue[Measured]) -> None:
    """Send rows, seconds and peak MiB of one analysis; imports count as memory, not as time."""
    with query.connect(TraceFolder(trace), memory_mib=memory_mib) as connection:
        begin_s = time.monotonic()
        rows = len(query.run(connection, name))
        elapsed_s = time.monotonic() - begin_s
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    answers.put((rows, elapsed_s, peak_mib))


def once(trace: Path, name: str, memory_mib: int) -> Measured:
    """Measure one analysis in a fresh process."""
    context = multiprocessing.get_context("spawn")
    answers: Queue[Measured] = context.Queue()
    process = context.Process(target=measure, args=(trace, name, memory_mib, answers))
    process.start()
    process.join()
    if process.exitcode != 0:
        raise SystemExit(f"{name} failed")
    return answers.get()


def main() -> None:
    """Print a line for each analysis: rows, median of the seconds, largest peak memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--memory", type=int, default=query.DEFAULT_MEMORY_MIB, help="MiB")
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()
    print(f"{'analysis':<36}{'rows':>8}{'seconds':>10}{'peak MiB':>10}")
    for name in (*ANALYSES, *CHECKS):
        runs = [once(options.trace, name, options.memory) for _ in range(options.repeat)]
        seconds = statistics.median(run[1] for run in runs)
        print(f"{name:<36}{runs[0][0]:>8}{seconds:>10.2f}{max(run[2] for run in runs):>10.0f}")


if __name__ == "__main__":
    main()
