"""The policies against libCacheSim: its misses as kept here, and the program itself if it is there.

Every page is an object of one byte. Its package would bring an SDK of a cloud along, so it is not
one of the tests' requirements; what version 0.3.5 found is in libcachesim.json, and `python -m
tests.simulate.test_libcachesim` writes that anew.
"""

import importlib
import json
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.bench.caches import PEERS, RECORD
from tracekit._native import caches
from tracekit._native.caches import CacheSetup, PageRuns
from tracekit.model.miss_ratio_curve import Accesses
from tracekit.readers.blktrace import parse

KEPT = Path(__file__).with_name("libcachesim.json")
SAMPLE = Path(__file__).resolve().parents[2] / "sample-traces" / "sysbench"
EQUAL = ("lru", "fifo", "clock", "arc", "2q", "sieve")
CAPACITIES = (100, 150, 350, 1000)


def sample_pages(folder: Path) -> NDArray[np.int64]:
    """Return the ranks of the pages that a real trace touches, in its order."""
    parsed, _ = parse([SAMPLE], folder)
    rows = np.concatenate(list(Accesses(parsed.table("requests"), 4096).read()))
    keys = [np.arange(key, key + count) for key, count in rows[["key", "count"]].tolist()]
    _, ranks = np.unique(np.concatenate(keys), return_inverse=True)
    return ranks.astype(np.int64)


def pages_of(name: str, folder: Path) -> NDArray[np.int64]:
    random = np.random.default_rng(17)
    if name == "sample":
        return sample_pages(folder)
    if name == "skewed":
        return (2000 * random.random(8000) ** 3).astype(np.int64)
    loop = np.arange(6000) % 700
    return np.where(random.random(6000) < 0.4, (300 * random.random(6000) ** 2), loop).astype(int)


TRACES = ("skewed", "loop", "sample")


def native_misses(pages: NDArray[np.int64], policy: str, capacity: int) -> int:
    rows = np.zeros(len(pages), np.dtype(caches.ACCESS))
    rows["key"], rows["count"] = pages, 1
    count = int(pages.max()) + 1
    with PageRuns(np.arange(count, dtype=np.int64)) as ranks:
        runs = ranks.find(rows)
    with caches.Cache(CacheSetup(count, capacity, policy)) as cache:
        cache.add(runs)
        counts = cache.read()
    return sum(counts.references) - sum(counts.hits)


def their_misses(pages: NDArray[np.int64], policy: str, capacity: int, folder: Path) -> int:
    peer = importlib.import_module("libcachesim")
    records = np.zeros(len(pages), RECORD)
    records["id"], records["size"], records["next"] = pages + 1, 1, -1
    trace = folder / "pages.oracleGeneral"
    records.tofile(trace)
    reader = peer.TraceReader(str(trace), peer.TraceType.ORACLE_GENERAL_TRACE)
    ratio = float(getattr(peer, PEERS[policy])(capacity).process_trace(reader)[0])
    return round(ratio * len(pages))


def kept() -> dict[str, dict[str, list[int]]]:
    found: dict[str, dict[str, list[int]]] = json.loads(KEPT.read_text())
    return found


@pytest.mark.parametrize("trace", TRACES)
def test_the_misses_are_those_of_libcachesim(trace: str, tmp_path: Path) -> None:
    pages = pages_of(trace, tmp_path / "t")
    found = {
        policy: [native_misses(pages, policy, size) for size in CAPACITIES] for policy in EQUAL
    }
    assert found == {policy: kept()[trace][policy] for policy in EQUAL}


def _taken(ghost: deque[int], page: int) -> bool:
    """Take a page out of the ghosts; say whether it was there."""
    is_there = page in ghost
    if is_there:
        ghost.remove(page)
    return is_there


def s3_fifo_misses(pages: NDArray[np.int64], capacity: int, *, is_theirs: bool = True) -> int:
    """Count as tracekit, or as libCacheSim does.

    That puts pages into main while the cache fills first and small has its tenth, goes on in the
    queue that it has begun with until a page leaves, where tracekit chooses a queue anew, and looks
    for a ghost before a page leaves, which may push the ghost out.
    """
    small, main, ghost = deque[int](), deque[int](), deque[int]()
    uses: dict[int, int] = {}
    share, misses, is_filling = capacity // 10, 0, is_theirs
    for page in pages.tolist():
        if page in uses:
            uses[page] += 1
            continue
        misses += 1
        is_known = is_theirs and _taken(ghost, page)
        is_going = is_main = False
        while len(small) + len(main) == capacity:
            is_filling = False
            if not (is_theirs and is_going) or not (main if is_main else small):
                is_main = len(main) > capacity - share or not small
            is_going = True
            oldest = (main if is_main else small).popleft()
            if is_main and uses[oldest]:
                uses[oldest] = min(uses[oldest], 3) - 1
                main.append(oldest)
            elif not is_main and uses[oldest] >= 2:
                uses[oldest] = 0
                main.append(oldest)
            else:
                del uses[oldest]
                ghost.extend([] if is_main else [oldest])
                while len(ghost) > int(capacity * 0.9):
                    ghost.popleft()
        is_known |= _taken(ghost, page)
        is_main = is_known or (is_filling and len(small) >= share)
        (main if is_main else small).append(page)
        uses[page] = 0
    return misses


@pytest.mark.parametrize("trace", ["skewed", "loop"])
def test_s3_fifo_differs_in_three_ways(trace: str, tmp_path: Path) -> None:
    pages = pages_of(trace, tmp_path)
    assert [s3_fifo_misses(pages, size) for size in CAPACITIES] == kept()[trace]["s3-fifo"]
    paper = [s3_fifo_misses(pages, size, is_theirs=False) for size in CAPACITIES]
    assert paper == [native_misses(pages, "s3-fifo", size) for size in CAPACITIES]


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize(("policy", "most"), [("lirs", 0.003), ("w-tinylfu", 0.1)])
def test_lirs_and_w_tinylfu_are_near(policy: str, most: float, trace: str, tmp_path: Path) -> None:
    pages = pages_of(trace, tmp_path / "t")
    for capacity, misses in zip(CAPACITIES, kept()[trace][policy], strict=True):
        ours = native_misses(pages, policy, capacity)
        assert abs(ours - misses) / len(pages) < most


def test_what_is_kept_is_what_libcachesim_finds(tmp_path: Path) -> None:
    pytest.importorskip("libcachesim")
    assert recorded(tmp_path) == kept()


def recorded(folder: Path) -> dict[str, dict[str, list[int]]]:
    return {
        trace: {
            policy: [their_misses(pages, policy, size, folder) for size in CAPACITIES]
            for policy in PEERS
        }
        for trace in TRACES
        for pages in [pages_of(trace, folder / trace)]
    }


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        KEPT.write_text(json.dumps(recorded(Path(scratch)), indent=1) + "\n")
