"""The cache kernels on one core, and what they take as traces grow."""

import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.bench.harness import Bench, one_core, peak_mib, timed
from tracekit._native.caches import (
    ACCESS,
    POLICIES,
    SHARDS_SCALE,
    Cache,
    CacheSetup,
    Curve,
    PageRuns,
    Shards,
    next_uses,
)
from tracekit.model.miss_ratio_curve import Accesses, HitCounts, exact_hits, sampled_hits

Array = np.ndarray[Any, Any]

SAMPLES = 490_000  # pages: what 8 MiB hold with the curves
FAR = 1 << 40  # pages: keys so far away have other hashes
CHUNK = 1 << 18
EVERYTHING = list(range(10))


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


def sizes_for(footprint: int) -> Array:
    """Return sizes an eighth of an octave apart, as the command has."""
    steps = np.arange(int(np.log2(footprint) * 8) + 1)
    return np.unique((2 ** (steps / 8)).astype(np.uint64))


def runs_of(rows: Array, footprint: int) -> Array:
    """Return the references by rank, as the kernels take them."""
    with PageRuns(np.arange(footprint, dtype=np.int64)) as pages:
        return pages.find(rows)


def exact(runs: Array, sizes: Array, footprint: int) -> tuple[HitCounts, int]:
    """Return the hits by the exact curve, and its memory in bytes."""
    with Curve(footprint, sizes) as curve:
        curve.add(runs)
        return exact_hits(curve.read(), sizes), curve.memory_bytes


def sampled(
    out: Bench, case: str, rows: Array, truth: HitCounts, *, samples: int, rounds: int
) -> None:
    """Time samples of the same references, each of other pages, and compare the exact curve."""
    references, ratio = int(rows["count"].sum()), truth.miss_ratios(EVERYTHING)
    sizes = truth.sizes[1:].astype(np.uint64)  # all but no cache
    rates, errors, inside, memory = [], [], [], 0
    for _ in range(rounds):
        rows["key"] += FAR
        start = time.process_time()
        with Shards(sizes, threshold=SHARDS_SCALE, page_limit=samples) as shards:
            for first in range(0, len(rows), CHUNK):
                shards.add(rows[first : first + CHUNK])
            rates.append(references / (time.process_time() - start) / 1e6)
            counts = sampled_hits(shards, sizes)
        low, high = counts.bounds(EVERYTHING)
        errors.append(np.abs(counts.miss_ratios(EVERYTHING) - ratio).mean())
        inside.append(((low <= ratio + 1e-12) & (ratio <= high + 1e-12)).mean())
        memory = counts.shards.memory_bytes if counts.shards else 0
    found = {"mean_error": float(np.mean(errors)), "worst_error": float(max(errors))}
    found |= {"in_band": float(np.mean(inside)), "worst_band": float(min(inside))}
    out.row(case, **{"M refs/s": median(rates)}, mib=memory / (1 << 20), **found)


def policy_rate(runs: Array, footprint: int, policy: str) -> float:
    """Return M references a second of a cache of a tenth of the footprint."""
    setup = CacheSetup(footprint, footprint // 10, policy)
    future = next_uses(setup, runs) if policy == "optimum" else None
    start = time.process_time()
    with Cache(setup) as cache:
        cache.add(runs, future)
    return float(runs["count"].sum()) / (time.process_time() - start) / 1e6


def from_parquet(out: Bench, folder: Path, *, samples: int, rounds: int) -> None:
    """Time samples straight from a trace folder's requests: reading, decoding and all."""

    def once() -> Any:
        with Shards(sizes_for(1 << 24), threshold=SHARDS_SCALE, page_limit=samples) as shards:
            for rows in Accesses(folder / "requests.parquet", 4096).read():
                shards.add(rows)
            return shards.read()[1]

    found = [timed(once) for _ in range(rounds)]
    totals = found[0][0]
    references = sum(totals.references)
    cpu_s, wall_s = (median(getattr(u, of) for _, u in found) for of in ("cpu_s", "wall_s"))
    rates = {"M refs/cpu-s": references / cpu_s / 1e6, "M refs/s": references / wall_s / 1e6}
    figures = {"mib": totals.memory_bytes / (1 << 20), "sampled": totals.sampled / references}
    out.row(f"{folder.name}, from Parquet", references=references, **rates, **figures)


def synthetic(out: Bench, rows: Array, footprint: int, *, samples: int, rounds: int) -> None:
    """Time the exact curve, samples and each policy on some references."""
    total, sizes = int(rows["count"].sum()), sizes_for(footprint)
    case = f"{total:,} references, {rows['count'][0]} at once"
    runs, ranks = timed(runs_of, rows, footprint)
    (truth, memory), curve = timed(exact, runs, sizes, footprint)
    rates = {"ranks M/s": total / ranks.cpu_s / 1e6, "curve M/s": total / curve.cpu_s / 1e6}
    out.row(case, pages=footprint, sizes=len(sizes), **rates, bytes_a_page=memory / footprint)
    sampled(out, f"{case}: sampled", rows, truth, samples=samples, rounds=rounds)
    for policy in POLICIES:
        found = [policy_rate(runs, footprint, policy) for _ in range(rounds)]
        out.row(f"{case}: {policy}", **{"M refs/s": median(found)})


def bench(
    out: Bench, *, references: tuple[int, ...] = (1_000_000, 10_000_000),
    pages_each: tuple[int, ...] = (1, 8), rounds: int = 5, samples: int = SAMPLES,
    trace: Path | None = None,
) -> None:  # fmt: skip
    """Requests are skewed over a footprint that grows with the trace, a tenth of its references.

    So the tables leave the processor's caches; pages a request are given, since neighbours are
    cheaper. With `trace` the samples come straight from the Parquet file of a trace folder, such as
    that of the bench of placement. Rates are of processor time.
    """
    one_core()
    if trace:
        from_parquet(out, trace, samples=samples, rounds=rounds)
        return
    for count in references:
        for pages in pages_each:
            footprint = max(8, count // 10)
            rows = requests(count, pages, footprint)
            synthetic(out, rows, footprint, samples=samples, rounds=rounds)
    out.row("all of it", peak_mib=peak_mib())
