"""Time the cache kernels on one core, and what they take as traces grow.

Requests are skewed over a footprint that grows with the trace (a tenth of its references), so the
tables leave the processor's caches; pages a request are given, since neighbours are cheaper.

    python tests/bench/cache.py --references 1000000 10000000 100000000
    python tests/bench/cache.py --folder /big/disk/trace-folder
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tracekit._native.caches import POLICIES, Cache, CacheSetup, next_uses
from tracekit._native.curves import SHARDS_SCALE, Curve, PageRuns, Shards
from tracekit._native.handle import ACCESS
from tracekit.model.miss_ratio_curve import Accesses, exact_hits, sampled_hits

Array = np.ndarray[Any, Any]

SAMPLES = 490_000  # pages: what 8 MiB hold with the curves
FAR = 1 << 40  # pages: keys so far away have other hashes
CHUNK = 1 << 18


def requests(references: int, pages_each: int, footprint: int) -> Array:
    """Return skewed requests of `pages_each` pages, scattered over the footprint."""
    random = np.random.default_rng(3)
    count = references // pages_each
    slots = footprint // pages_each
    rows = np.zeros(count, np.dtype(ACCESS))
    place = (slots * random.random(count) ** 3).astype(np.int64)
    rows["key"] = place * 7_919_993 % slots * pages_each
    rows["count"] = pages_each
    rows["is_write"] = random.random(count) < 0.3
    return rows


def seconds(start: float) -> float:
    """Return the processor time of this process since `start`."""
    return time.process_time() - start


def sizes_for(footprint: int) -> Array:
    """Return sizes an eighth of an octave apart, as the command has."""
    steps = np.arange(int(np.log2(footprint) * 8) + 1)
    return np.unique((2 ** (steps / 8)).astype(np.uint64))


def exact(rows: Array, footprint: int) -> tuple[Array, Any]:
    """Time the exact curve; return the runs and the hits."""
    start = time.process_time()
    keys = np.arange(footprint, dtype=np.int64)
    with PageRuns(keys) as pages:
        runs = pages.find(rows)
    found_s = seconds(start)
    references = int(rows["count"].sum())
    sizes = sizes_for(footprint)
    start = time.process_time()
    with Curve(footprint, sizes) as curve:
        curve.add(runs)
        counts = exact_hits(curve.read(), sizes)
        memory = curve.memory_bytes
    took = seconds(start)
    print(
        f"  exact curve of {len(sizes)} sizes: {references / took / 1e6:.1f} M refs/s, ranks"
        f" {references / found_s / 1e6:.1f} M refs/s, {memory / footprint:.1f} + at most 12 bytes"
        " a page"
    )
    return runs, counts


def sampled(rows: Array, footprint: int, truth: Any, options: argparse.Namespace) -> None:
    """Time samples of the same references, each of other pages, and compare the exact curve."""
    sizes = sizes_for(footprint)
    references = int(rows["count"].sum())
    everything = list(range(10))
    ratio = truth.miss_ratios(everything)
    took, errors, covered, memory = [], [], [], 0
    for _ in range(options.repeats):
        rows["key"] += FAR
        start = time.process_time()
        with Shards(sizes, threshold=SHARDS_SCALE, page_limit=options.samples) as shards:
            for first in range(0, len(rows), CHUNK):
                shards.add(rows[first : first + CHUNK])
            took.append(seconds(start))
            counts = sampled_hits(shards, sizes)
        low, high = counts.bounds(everything)
        errors.append(np.abs(counts.miss_ratios(everything) - ratio).mean())
        covered.append(((low <= ratio + 1e-12) & (ratio <= high + 1e-12)).mean())
        memory = counts.shards.memory_bytes if counts.shards else 0
    print(
        f"  samples of {options.samples:,} pages: {references / median(took) / 1e6:.0f} M refs/s,"
        f" {memory / (1 << 20):.1f} MiB, mean error {np.mean(errors):.4f}, of the worst"
        f" {max(errors):.4f}, bands hold {np.mean(covered):.1%} of the sizes, the worst"
        f" {min(covered):.1%}"
    )


def one_size(runs: Array, footprint: int, repeats: int) -> None:
    """Time each policy at a tenth of the footprint, the median of some rounds."""
    references = int(runs["count"].sum())
    rates = []
    for policy in POLICIES:
        setup = CacheSetup(footprint, footprint // 10, policy)
        future = next_uses(setup, runs) if policy == "optimum" else None
        took = []
        for _ in range(repeats):
            start = time.process_time()
            with Cache(setup) as cache:
                cache.add(runs, future)
            took.append(seconds(start))
        rates.append(f"{policy} {references / median(took) / 1e6:.1f}")
    print(f"  one size, M refs/s: {', '.join(rates)}")


def from_parquet(options: argparse.Namespace) -> None:
    """Time samples straight from a trace folder's requests: reading, decoding and all."""
    sizes = sizes_for(1 << 24)
    took, passed = [], []
    for _ in range(options.repeats):
        start, wall = time.process_time(), time.monotonic()
        with Shards(sizes, threshold=SHARDS_SCALE, page_limit=options.samples) as shards:
            for rows in Accesses(options.folder / "requests.parquet", 4096).read():
                shards.add(rows)
            took.append(seconds(start))
            passed.append(time.monotonic() - wall)
            totals = shards.read()[1]
    references = sum(totals.references)
    print(
        f"{options.folder.name}: {references:,} references sampled from Parquet at"
        f" {references / median(took) / 1e6:.0f} M refs/s of processor time,"
        f" {references / median(passed) / 1e6:.0f} M/s of wall time,"
        f" {totals.memory_bytes / (1 << 20):.1f} MiB, {totals.sampled / references:.1%} sampled"
    )


def main() -> None:
    """Time synthetic references of every length that is asked for, or a trace folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--references", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--pages-each", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each policy and sample")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="most pages in a sample")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if options.folder:
        from_parquet(options)
        return
    for references in options.references:
        for pages_each in options.pages_each:
            footprint = max(8, references // 10)
            rows = requests(references, pages_each, footprint)
            total = int(rows["count"].sum())
            print(f"{total:,} references, {pages_each} pages a request, {footprint:,} pages")
            runs, truth = exact(rows, footprint)
            sampled(rows, footprint, truth, options)
            one_size(runs, footprint, options.repeats)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak {peak_mib:.0f} MiB")


if __name__ == "__main__":
    main()
