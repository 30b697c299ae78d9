"""Time `tracekit bench`: when requests of a profile were submitted, beside when they were due.

Profiles of one stream whose gaps are 50 us on average (20,000 requests/s), of each process; on the
null engine and on a file that is made for the run. A line has the issue error (submitted less due),
the realised rate, and how far the gaps of submission are from the profile's distribution: the
distance of Kolmogorov and Smirnov to scipy's, beside that of the gaps as they were due.

    python -m tests.bench.arrivals FOLDER --requests 200000 --repeats 3
"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy import stats

from tracekit.pipeline import BenchOptions, bench
from tracekit.workload.reader import read_profile
from tracekit.workload.requests import Extent

MEAN_NS = 50_000.0
PROCESSES: dict[str, tuple[str, Any]] = {
    "exponential": ("", stats.expon(scale=MEAN_NS)),
    "gamma": ("shape = 0.5", stats.gamma(0.5, scale=MEAN_NS / 0.5)),
    "weibull": (
        "shape = 0.6",
        stats.weibull_min(0.6, scale=MEAN_NS / math.gamma(1 + 1 / 0.6)),
    ),
    "lognormal": ("sigma = 1", stats.lognorm(1, scale=MEAN_NS * math.exp(-0.5))),
}
PROFILE = """target_size = "256MiB"
[arrival]
process = "{process}"
mean = "50us"
{more}
[[request]]
share = 0.7
operation = "read"
access = "random"
size = "4KiB"
[[request]]
share = 0.3
operation = "write"
access = "random"
size = "4KiB"
"""


def line(process: str, folder: Path, *, engine: str, requests: int) -> str:
    """Run one profile and say how it went."""
    more, expected = PROCESSES[process]
    (folder / "own.toml").write_text(PROFILE.format(process=process, more=more))
    profile = read_profile(folder / "own.toml")
    options = BenchOptions(engine=engine, overwrite=True, with_report=False)
    result = bench(profile, folder / "run", extent=Extent(requests), options=options)
    (summary,) = result.summaries
    table = pq.read_table(folder / "run/replays/latest/completions.parquet")
    gaps = [
        np.diff(np.sort(np.asarray(table[name]).astype(np.float64)))
        for name in ("submit_ns", "intended_ns")
    ]
    apart = [stats.kstest(of, expected.cdf).statistic for of in gaps]
    error = {name: summary["issue_error"][f"{name}_ns"] / 1e3 for name in ("p50", "p99", "max")}
    shown = ", ".join(f"{name} {value:,.2f} us" for name, value in error.items())
    rate = summary["timing"]["requests_per_second"]
    return (
        f"{engine}, {process}: {shown}, {rate:,.0f} requests/s (due: {1e9 / gaps[1].mean():,.0f}),"
        f" gaps {apart[0]:.4f} from the profile's (due: {apart[1]:.4f}),"
        f" load {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    """Print a line a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for engine in ("null", "auto"):
        for process in PROCESSES:
            for _ in range(asked.repeats):
                print(line(process, asked.folder, engine=engine, requests=asked.requests))


if __name__ == "__main__":
    main()
