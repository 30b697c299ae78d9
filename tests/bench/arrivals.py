"""`tracekit bench`: when requests of a profile were submitted, beside when they were due."""

import math
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy import stats

from tests.bench.harness import Bench
from tracekit.pipeline import BenchOptions
from tracekit.pipeline import bench as run_profile
from tracekit.workload.reader import read_profile
from tracekit.workload.requests import Extent

MEAN_NS = 50_000.0
PROCESSES: dict[str, tuple[str, Any]] = {
    "exponential": ("", stats.expon(scale=MEAN_NS)),
    "gamma": ("shape = 0.5", stats.gamma(0.5, scale=MEAN_NS / 0.5)),
    "weibull": ("shape = 0.6", stats.weibull_min(0.6, scale=MEAN_NS / math.gamma(1 + 1 / 0.6))),
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


def measure(out: Bench, process: str, *, engine: str, requests: int) -> None:
    """Run one profile and print how it went."""
    more, expected = PROCESSES[process]
    own = out.scratch / "own.toml"
    own.write_text(PROFILE.format(process=process, more=more))
    options = BenchOptions(engine=engine, overwrite=True, with_report=False)
    folder, extent = out.scratch / "run", Extent(requests)
    (summary,) = run_profile(read_profile(own), folder, extent=extent, options=options).summaries
    table = pq.read_table(folder / "replays/latest/completions.parquet")
    submitted, due = (
        np.diff(np.sort(np.asarray(table[name]).astype(np.float64)))
        for name in ("submit_ns", "intended_ns")
    )
    error = {f"{at}_us": summary["issue_error"][f"{at}_ns"] / 1e3 for at in ("p50", "p99", "max")}
    rates = {"rate": summary["timing"]["requests_per_second"], "due": 1e9 / float(due.mean())}
    apart = {
        "gaps_ks": float(stats.kstest(submitted, expected.cdf).statistic),
        "due_ks": float(stats.kstest(due, expected.cdf).statistic),
    }
    out.row(f"{engine}, {process}", **error, **rates, **apart)


def bench_arrivals(out: Bench, *, requests: int = 200_000, repeats: int = 3) -> None:
    """Run profiles of one stream with gaps of 50 us on average (20,000 requests/s), by process.

    On the null engine and on a file that is made for the run. A row has the issue error (submitted
    less due), the rate, and how far the gaps of submission are from the profile's distribution: the
    distance of Kolmogorov and Smirnov to scipy's, beside that of the gaps as they were due.
    """
    for engine in ("null", "auto"):
        for process in PROCESSES:
            for _ in range(repeats):
                measure(out, process, engine=engine, requests=requests)
