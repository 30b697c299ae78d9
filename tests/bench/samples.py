"""How far samples are from the exact curve, and how much of it their bands hold."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.bench.cache import FAR, exact, runs_of, sizes_for
from tests.bench.harness import Bench, one_core
from tracekit._native.caches import ACCESS, SHARDS_SCALE, Shards
from tracekit.model.miss_ratio_curve import HitCounts, sampled_hits

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


KINDS = tuple(WORKLOADS)


def accesses(name: str, count: int, pages: int) -> Array:
    """Return one-page accesses, three tenths of them writes."""
    random = np.random.default_rng(7)
    rows = np.zeros(count, np.dtype(ACCESS))
    rows["key"] = WORKLOADS[name](random, count, pages)
    rows["count"] = 1
    rows["is_write"] = random.random(count) < 0.3
    return rows


def judge(rows: Array, truth: HitCounts, sizes: Array, samples: int) -> dict[str, list[float]]:
    """Take one sample; return error, share of the points in the band and its width by choice."""
    with Shards(sizes, threshold=SHARDS_SCALE, page_limit=samples) as shards:
        shards.add(rows)
        guess = sampled_hits(shards, sizes)
    found = {}
    for choice, chosen in CHOICES.items():
        ratio = truth.miss_ratios(chosen)
        low, high = guess.bounds(chosen)
        inside = (low <= ratio + 1e-12) & (ratio <= high + 1e-12)
        error = np.abs(guess.miss_ratios(chosen) - ratio).mean()
        found[choice] = [float(error), float(inside.mean()), float((high - low).mean())]
    return found


def bench(
    out: Bench, *, references: int = 1_500_000, pages: int = 300_000,
    samples: tuple[int, ...] = (12_000, 60_000), repeats: int = 40, kinds: tuple[str, ...] = KINDS,
) -> None:  # fmt: skip
    """Take many samples of the same references, each of other pages, for several kinds of them.

    Of all references, of reads and of writes: the mean error and that of the worst sample, the
    width of the bands, the share of points that they hold, and how many hold less than promised.
    """
    one_core()
    sizes = sizes_for(pages)
    for name in kinds:
        rows = accesses(name, references, pages)
        truth, _ = exact(runs_of(rows, pages), sizes, pages)
        for limit in samples:
            found = []
            for _ in range(repeats):
                rows["key"] += FAR
                found.append(judge(rows, truth, sizes, limit))
            for choice in CHOICES:
                error, inside, width = np.array([one[choice] for one in found]).T
                errors = {"error": float(error.mean()), "worst_error": float(error.max())}
                bands = {"width": float(width.mean()), "in_band": float(inside.mean())}
                bands["worst_band"] = float(inside.min())
                below = int((inside < PROMISED).sum())
                out.row(f"{name}, {limit:,} samples, {choice}", **errors, **bands, below=below)
