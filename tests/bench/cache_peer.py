"""Time one cache size beside libCacheSim on the same references, and compare their misses.

Both on one core, in turn, from where libCacheSim starts: its binary trace in the page cache, and
runs in memory. `pip install libcachesim` brings the peer; without it only tracekit is timed.

    python -m tests.bench.cache_peer --references 10000000
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np

from tests.bench.cache import requests
from tracekit._native.caches import Cache, CacheSetup
from tracekit._native.curves import PageRuns

Array = np.ndarray[Any, Any]

# By our names; libCacheSim's S3-FIFO and ARC have other defaults, so their misses differ.
PEERS = {"lru": "LRU", "fifo": "FIFO", "clock": "Clock", "s3-fifo": "S3FIFO", "arc": "ARC"}
EQUAL = ("lru", "fifo", "clock")
PEER = "libcachesim"
REPEATS = 5
PUBLISHED_MREFS_S = 2.75  # libCacheSim's own figure, of one thread
# oracleGeneral, as libCacheSim's documentation has it.
RECORD = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])


def timed(work: Callable[[], float]) -> tuple[float, float]:
    """Return the processor time and the result of one run."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


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


def compare(rows: Array, footprint: int, peer: ModuleType | None, trace: Path) -> None:
    """Print the speed of each policy at a tenth of the footprint, and the ratio."""
    references, capacity = len(rows), footprint // 10
    with PageRuns(np.arange(footprint, dtype=np.int64)) as pages:
        runs = pages.find(rows)
    for policy in PEERS:
        setup = CacheSetup(footprint, capacity, policy)
        mine, other = [], []
        for _ in range(REPEATS):
            mine.append(timed(partial(ours, runs, setup, references)))
            if peer:
                other.append(timed(partial(theirs, peer, trace, policy, capacity)))
        rate = references / median(took for took, _ in mine) / 1e6
        line = f"  {policy}: {rate:.1f} M refs/s, misses {mine[0][1]:.4f}"
        if other:
            peer_rate = references / median(took for took, _ in other) / 1e6
            line += f"; libCacheSim {peer_rate:.2f} M refs/s, misses {other[0][1]:.4f}"
            line += f"; ratio {rate / peer_rate:.1f}"
            if policy in EQUAL and round(mine[0][1], 6) != round(other[0][1], 6):
                raise SystemExit(f"{policy}: {mine[0][1]} misses and libCacheSim {other[0][1]}")
        else:
            line += f"; {rate / PUBLISHED_MREFS_S:.1f} times what libCacheSim has published"
        print(line)


def main() -> None:
    """Make the references, write them for the peer, and time both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--references", type=int, default=10_000_000)
    count = parser.parse_args().references
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    is_installed = importlib.util.find_spec(PEER) is not None
    peer = importlib.import_module(PEER) if is_installed else None
    if not is_installed:
        print("libCacheSim is not installed (pip install libcachesim): not measured")
    footprint = max(100, count // 10)
    rows = requests(count, 1, footprint)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "references.oracleGeneral"
        records = np.zeros(count, RECORD)
        records["id"], records["size"], records["next"] = rows["key"] + 1, 1, -1
        records.tofile(trace)
        print(f"{count:,} references to {footprint:,} pages, a cache of a tenth")
        compare(rows, footprint, peer, trace)


if __name__ == "__main__":
    main()
