"""How far samples are from the exact curve, and how much of it their bands hold.

Many samples of the same references, each of other pages, for several kinds of references; all
references, reads and writes apart.

    python -m tests.bench.samples --references 1500000 --pages 300000 --samples 12000 60000
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.bench.cache import FAR, sizes_for
from tracekit._native.curves import SHARDS_SCALE, Curve, PageRuns, Shards
from tracekit._native.handle import ACCESS
from tracekit.model.miss_ratio_curve import HitCounts, exact_hits, sampled_hits

Array = np.ndarray[Any, Any]

SPREAD = 7_919_993  # a prime: neighbours in popularity are not neighbours on the device
CHOICES = {"all": list(range(10)), "reads": [0], "writes": [1]}
PROMISED = 0.95  # of the points in a band


def skewed(random: np.random.Generator, count: int, pages: int) -> Array:
    """Return pages by the third power of a uniform number."""
    return (pages * random.random(count) ** 3).astype(np.int64) * SPREAD % pages


def inverse(random: np.random.Generator, count: int, pages: int) -> Array:
    """Return pages with a probability of one through their rank."""
    return (pages ** random.random(count)).astype(np.int64) * SPREAD % pages


def loops(_random: np.random.Generator, count: int, pages: int) -> Array:
    """Return two loops, a short one at every third reference."""
    at = np.arange(count)
    long = pages // 3 + at % (pages * 2 // 3)
    return np.where(at % 3 == 0, at // 3 % (pages // 4), long)


def drifting(random: np.random.Generator, count: int, pages: int) -> Array:
    """Return pages about one that moves on over most of the pages."""
    at = np.arange(count) / count
    pages_about = at * pages * 0.8 + random.normal(0, pages / 20, count)
    return np.abs(pages_about.astype(np.int64)) % pages


def scan(_random: np.random.Generator, count: int, pages: int) -> Array:
    """Return all pages in their order, again and again."""
    return np.arange(count) % pages


def mixed(random: np.random.Generator, count: int, pages: int) -> Array:
    """Return skew, a loop and a drift, each on pages of its own, at random turns."""
    quarter = pages // 4
    parts = [
        skewed(random, count, quarter),
        quarter + np.arange(count) % quarter,
        2 * quarter + drifting(random, count, 2 * quarter),
    ]
    return np.choose(random.integers(0, len(parts), count), parts)


WORKLOADS: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "skewed": skewed,
    "1/x": inverse,
    "loops": loops,
    "scan": scan,
    "drifting": drifting,
    "mixed": mixed,
}


def accesses(name: str, count: int, pages: int) -> Array:
    """Return one-page accesses, three tenths of them writes."""
    random = np.random.default_rng(7)
    rows = np.zeros(count, np.dtype(ACCESS))
    rows["key"] = WORKLOADS[name](random, count, pages)
    rows["count"] = 1
    rows["is_write"] = random.random(count) < 0.3
    return rows


def exact(rows: Array, pages: int, sizes: Array) -> HitCounts:
    """Return the exact hits."""
    with PageRuns(np.arange(pages, dtype=np.int64)) as ranks, Curve(pages, sizes) as curve:
        curve.add(ranks.find(rows))
        return exact_hits(curve.read(), sizes)


def judge(rows: Array, truth: HitCounts, sizes: Array, samples: int) -> dict[str, list[float]]:
    """Take one sample; return error, share of the points in the band and its width by choice."""
    with Shards(sizes, threshold=SHARDS_SCALE, page_limit=samples) as shards:
        shards.add(rows)
        guess = sampled_hits(shards, sizes)
    found = {}
    for choice, chosen in CHOICES.items():
        ratio = truth.miss_ratios(chosen)
        low, high = guess.bounds(chosen)
        held = (low <= ratio + 1e-12) & (ratio <= high + 1e-12)
        error = np.abs(guess.miss_ratios(chosen) - ratio).mean()
        found[choice] = [float(error), float(held.mean()), float((high - low).mean())]
    return found


def main() -> None:
    """Print a line for each kind of references, number of samples and choice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--references", type=int, default=1_500_000)
    parser.add_argument("--pages", type=int, default=300_000)
    parser.add_argument("--samples", type=int, nargs="+", default=[12_000, 60_000])
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--kinds", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    options = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    sizes = sizes_for(options.pages)
    for name in options.kinds:
        rows = accesses(name, options.references, options.pages)
        truth = exact(rows, options.pages, sizes)
        for samples in options.samples:
            found = []
            for _ in range(options.repeats):
                rows["key"] += FAR
                found.append(judge(rows, truth, sizes, samples))
            for choice in CHOICES:
                error, held, width = np.array([one[choice] for one in found]).T
                print(
                    f"{name}, {samples:,} samples, {choice}: mean error {error.mean():.4f}, of the"
                    f" worst {error.max():.4f}; bands of width {width.mean():.4f} hold"
                    f" {held.mean():.2%}, the worst {held.min():.1%}, {(held < PROMISED).sum()}"
                    f" of {len(held)} less than {PROMISED:.0%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
