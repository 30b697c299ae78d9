"""The cache kernels: their speed, samples beside the exact curve, and libCacheSim beside them."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np

from tests.bench.harness import Bench, needs_module, one_core, peak_mib, timed
from tracekit._native import caches as kernels
from tracekit.model.miss_ratio_curve import Accesses, HitCounts, exact_hits, sampled_hits

Array = np.ndarray[Any, Any]

SAMPLES = 490_000  # pages: what 8 MiB hold with the curves
FAR = 1 << 40  # pages: keys so far away have other hashes
CHUNK = 1 << 18
CHOICES = {"all": list(range(10)), "reads": [0], "writes": [1]}


def requests(references: int, pages_each: int, footprint: int) -> Array:
    """Return skewed requests of `pages_each` pages, scattered over the footprint."""
    random = np.random.default_rng(3)
    count = references // pages_each
    slots = footprint // pages_each
    rows = np.zeros(count, np.dtype(kernels.ACCESS))
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
    with kernels.PageRuns(np.arange(footprint, dtype=np.int64)) as pages:
        return pages.find(rows)


def exact(runs: Array, sizes: Array, footprint: int) -> tuple[HitCounts, int]:
    """Return the hits by the exact curve, and its memory in bytes."""
    with kernels.Curve(footprint, sizes) as curve:
        curve.add(runs)
        return exact_hits(curve.read(), sizes), curve.memory_bytes


@dataclass(frozen=True)
class Sample:
    """A sample's hits beside the exact ones, and the processor time that it took."""

    hits: HitCounts
    truth: HitCounts
    cpu_s: float

    def judge(self, choice: list[int]) -> tuple[float, float, float]:
        """Return the mean error, the share of the points in the band, and its width."""
        ratio = self.truth.miss_ratios(choice)
        low, high = self.hits.bounds(choice)
        inside = (low <= ratio + 1e-12) & (ratio <= high + 1e-12)
        error = np.abs(self.hits.miss_ratios(choice) - ratio).mean()
        return float(error), float(inside.mean()), float((high - low).mean())


def samples_of(rows: Array, truth: HitCounts, *, pages: int, count: int) -> Iterator[Sample]:
    """Yield so many samples of at most `pages` of the same references, each of other pages."""
    sizes = truth.sizes[1:].astype(np.uint64)  # all but no cache
    for _ in range(count):
        rows["key"] += FAR
        start = time.process_time()
        with kernels.Shards(sizes, threshold=kernels.SHARDS_SCALE, page_limit=pages) as shards:
            for first in range(0, len(rows), CHUNK):
                shards.add(rows[first : first + CHUNK])
            cpu_s = time.process_time() - start
            hits = sampled_hits(shards, sizes)
        yield Sample(hits, truth, cpu_s)


def sampled(
    out: Bench, case: str, rows: Array, truth: HitCounts, *, samples: int, rounds: int
) -> None:
    """Time samples, and compare the exact curve."""
    references, found = int(rows["count"].sum()), []
    rates, memory = [], 0
    for sample in samples_of(rows, truth, pages=samples, count=rounds):
        rates.append(references / sample.cpu_s / 1e6)
        found.append(sample.judge(CHOICES["all"]))
        memory = sample.hits.shards.memory_bytes if sample.hits.shards else 0
    figures = {"M refs/s": median(rates), "mib": memory / (1 << 20)}
    out.row(case, **figures, **summed(found))


def summed(found: list[tuple[float, float, float]]) -> dict[str, float]:
    """Return mean and worst of what samples were judged."""
    error, inside, width = np.array(found).T
    errors = {"error": float(error.mean()), "worst_error": float(error.max())}
    bands = {"in_band": float(inside.mean()), "worst_band": float(inside.min())}
    return {**errors, "width": float(width.mean()), **bands}


def policy_rate(runs: Array, footprint: int, policy: str) -> float:
    """Return M references a second of a cache of a tenth of the footprint."""
    setup = kernels.CacheSetup(footprint, footprint // 10, policy)
    future = kernels.next_uses(setup, runs) if policy == "optimum" else None
    start = time.process_time()
    with kernels.Cache(setup) as cache:
        cache.add(runs, future)
    return float(runs["count"].sum()) / (time.process_time() - start) / 1e6


def from_parquet(out: Bench, folder: Path, *, samples: int, rounds: int) -> None:
    """Time samples straight from a trace folder's requests: reading, decoding and all."""

    def once() -> Any:
        with kernels.Shards(
            sizes_for(1 << 24), threshold=kernels.SHARDS_SCALE, page_limit=samples
        ) as shards:
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
    for policy in kernels.POLICIES:
        found = [policy_rate(runs, footprint, policy) for _ in range(rounds)]
        out.row(f"{case}: {policy}", **{"M refs/s": median(found)})


def bench_cache(
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


SPREAD = 7_919_993  # a prime: neighbours in popularity are not neighbours on the device
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
    rows = np.zeros(count, np.dtype(kernels.ACCESS))
    rows["key"] = WORKLOADS[name](random, count, pages)
    rows["count"] = 1
    rows["is_write"] = random.random(count) < 0.3
    return rows


def bench_samples(
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
            taken = list(samples_of(rows, truth, pages=limit, count=repeats))
            for choice, chosen in CHOICES.items():
                found = [sample.judge(chosen) for sample in taken]
                below = sum(inside < PROMISED for _, inside, _ in found)
                case = f"{name}, {limit:,} samples, {choice}"
                out.row(case, **summed(found), below=below)


# By our names; where libCacheSim differs from the papers or in parameters, so do the misses.
PEERS = {
    "lru": "LRU", "fifo": "FIFO", "clock": "Clock", "s3-fifo": "S3FIFO", "arc": "ARC", "2q": "TwoQ",
    "lirs": "LIRS", "sieve": "Sieve", "w-tinylfu": "WTinyLFU",
}  # fmt: skip
EQUAL = ("lru", "fifo", "clock", "arc", "2q", "sieve")
PEER = "libcachesim"
PUBLISHED_MREFS_S = 2.75  # libCacheSim's own figure, of one thread
# oracleGeneral, as libCacheSim's documentation has it.
RECORD = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])


def ours(runs: Array, setup: kernels.CacheSetup, references: int) -> float:
    """Return tracekit's miss ratio."""
    with kernels.Cache(setup) as cache:
        cache.add(runs)
        return 1 - sum(cache.read().hits) / references


def theirs(peer: ModuleType, trace: Path, policy: str, capacity: int) -> float:
    """Return libCacheSim's miss ratio; every page is an object of one byte."""
    reader = peer.TraceReader(str(trace), peer.TraceType.ORACLE_GENERAL_TRACE)
    ratio: float = getattr(peer, PEERS[policy])(capacity).process_trace(reader)[0]
    return ratio


def write_trace(path: Path, rows: Array) -> None:
    """Write the references for the peer."""
    records = np.zeros(len(rows), RECORD)
    records["id"], records["size"], records["next"] = rows["key"] + 1, 1, -1
    records.tofile(path)


def bench_cache_peer(out: Bench, *, references: int = 10_000_000, rounds: int = 5) -> None:
    """Run both on one core, in turn, from where libCacheSim starts.

    That is its binary trace in the page cache, and runs in memory; the cache has a tenth of the
    pages. Without the peer only tracekit is measured, beside what libCacheSim has published.
    """
    one_core()
    footprint = max(100, references // 10)
    rows = requests(references, 1, footprint)
    trace = out.scratch / "references.oracleGeneral"
    write_trace(trace, rows)
    runs = runs_of(rows, footprint)
    peer: ModuleType | None = None
    with out.part(PEER):
        peer = needs_module(PEER)
    for policy in PEERS:
        misses: dict[str, float] = {}
        setup = kernels.CacheSetup(footprint, footprint // 10, policy)
        works = {"tracekit": partial(ours, runs, setup, references)}
        if peer:
            works[PEER] = partial(theirs, peer, trace, policy, footprint // 10)

        def rate(name: str, works: Any = works, misses: dict[str, float] = misses) -> float:
            misses[name], used = timed(works[name])
            return references / used.cpu_s / 1e6

        ways = {name: partial(rate, name) for name in reversed(works)}
        found = out.compare(policy, ways, rounds=rounds, unit="M refs/s")
        published = median(found["tracekit"]) / PUBLISHED_MREFS_S
        out.row(f"{policy}: misses", **misses, to_published=published)
        if policy in EQUAL and len({round(ratio, 6) for ratio in misses.values()}) > 1:
            raise SystemExit(f"{policy}: the misses differ: {misses}")
