"""One cache size beside libCacheSim on the same references, and their misses."""

from functools import partial
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np

from tests.bench.cache import requests, runs_of
from tests.bench.harness import Bench, needs_module, one_core, timed
from tracekit._native.caches import Cache, CacheSetup

Array = np.ndarray[Any, Any]

# By our names; libCacheSim's S3-FIFO and ARC have other defaults, so their misses differ.
PEERS = {"lru": "LRU", "fifo": "FIFO", "clock": "Clock", "s3-fifo": "S3FIFO", "arc": "ARC"}
EQUAL = ("lru", "fifo", "clock")
PEER = "libcachesim"
PUBLISHED_MREFS_S = 2.75  # libCacheSim's own figure, of one thread
# oracleGeneral, as libCacheSim's documentation has it.
RECORD = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])


def ours(runs: Array, setup: CacheSetup, references: int) -> float:
    """Return tracekit's miss ratio."""
    with Cache(setup) as cache:
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


def bench(out: Bench, *, references: int = 10_000_000, rounds: int = 5) -> None:
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
        setup = CacheSetup(footprint, footprint // 10, policy)
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
