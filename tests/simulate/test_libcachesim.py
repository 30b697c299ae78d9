"""Policies against libCacheSim, and on a sample of the pages against the whole trace.

Every page is an object of one byte to libCacheSim. Its package would bring an SDK of a cloud along,
so it is not one of the tests' requirements; what version 0.3.5 found is in libcachesim.json, and
`python -m tests.simulate.test_libcachesim` writes that anew.
"""

import importlib
import json
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.bench.caches import PEERS, RECORD
from tests.command_line import succeed
from tests.simulate import cache_models
from tests.simulate.policy_models import hash_of
from tests.simulate.test_cache_kernels import accesses as workload
from tests.simulate.traces import make_trace
from tests.traces import json_of, rows_of
from tracekit._native import caches
from tracekit._native.caches import SHARDS_SCALE, CacheSetup, PageRuns
from tracekit.model import miniature
from tracekit.model.miniature import Estimate, Miniature
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


class Kept(Accesses):
    """Accesses that are there already, in several parts."""

    def __init__(self, rows: NDArray[np.void]) -> None:
        super().__init__(Path(), 4096)
        self.rows = rows

    def read(self, on_rows: object = None) -> object:  # type: ignore[override] # noqa: ARG002
        return iter(np.array_split(self.rows, 3))


def sample_of(rows: NDArray[np.void], rate: float) -> Miniature:
    """Take a sample of accesses."""
    is_write = rows["is_write"] != 0
    totals = (int(rows["count"][~is_write].sum()), int(rows["count"][is_write].sum()))
    threshold = round(rate * SHARDS_SCALE)
    return miniature.take(Kept(rows), threshold=threshold, references=totals, on_rows=None)


def estimated(sample: Miniature, setups: list[CacheSetup]) -> list[Estimate]:
    return list(miniature.estimates(sample, setups, on_step=lambda *_: None))


def exact_ratio(runs: NDArray[np.void], setup: CacheSetup) -> float:
    with caches.Cache(setup) as cache:
        cache.add(runs, caches.next_uses(setup, runs) if setup.policy == "optimum" else None)
        counts = cache.read()
    return 1 - sum(counts.hits) / sum(counts.references)


@pytest.mark.parametrize("policy", caches.POLICIES)
@pytest.mark.parametrize("rate", [0.25, 1.0])
def test_a_miniature_is_the_policy_on_the_pages_below_the_threshold(
    policy: str, rate: float
) -> None:
    # GIVEN requests of one to three pages of which a quarter, or all, is sampled
    random = np.random.default_rng(4)
    rows = np.zeros(900, np.dtype(caches.ACCESS))
    rows["key"] = 240 * random.random(900) ** 2
    rows["count"], rows["is_write"] = random.integers(1, 4, 900), random.random(900) < 0.4
    sample = sample_of(rows, rate)
    (found,) = estimated(sample, [CacheSetup(0, 100, policy, "back")])
    # THEN its misses are those of a cache of the rate's size that sees these pages only
    references = [
        (key, bool(row["is_write"]))
        for row in rows
        for key in range(int(row["key"]), int(row["key"] + row["count"]))
        if hash_of(key) >> 40 < round(rate * SHARDS_SCALE)
    ]
    ranks = {key: at for at, key in enumerate(sorted({key for key, _ in references}))}
    ranked = [(ranks[key], is_write) for key, is_write in references]
    missed = cache_models.MODELS[policy](ranked, round(100 * rate))
    counts = found.counts
    assert sum(counts.references) - sum(counts.hits) == pytest.approx(missed / rate, abs=1)
    assert (counts.references, sum(found.counts.references)) == (
        sample.references,
        int(rows["count"].sum()),
    )
    if rate == 1:
        assert found.low == found.high


@pytest.mark.parametrize("kind", ["zipf", "mixed"])
def test_the_mean_error_is_small_and_the_bands_hold(kind: str) -> None:
    # GIVEN 400,000 pages, of which a twentieth is sampled, and caches from a 64th of them on
    rows = workload(kind)[:60_000]
    pages = int(rows["key"].max()) + 9
    with caches.PageRuns(np.arange(pages, dtype=np.int64)) as ranks:
        runs = ranks.find(rows)
    setups = [
        CacheSetup(pages, pages >> shift, policy) for policy in caches.POLICIES for shift in (5, 2)
    ]
    found = estimated(sample_of(rows, 0.05), setups)
    truth = np.array([exact_ratio(runs, setup) for setup in setups])
    ratios = np.array([1 - sum(one.counts.hits) / sum(one.counts.references) for one in found])
    inside = [one.low <= ratio <= one.high for one, ratio in zip(found, truth, strict=True)]
    # THEN miss ratios are right within a hundredth and a half, and the bands hold nine in ten
    assert np.abs(ratios - truth).mean() <= 0.015
    assert np.mean(inside) >= 0.9


def test_the_command_simulates_policies_on_a_sample(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    blocks = (900 * random.random(3000) ** 2).astype(int).tolist()
    folder = make_trace(tmp_path / "t", [("read", block, 1) for block in blocks])
    words = ("simulate", "cache", folder.path, "--sizes", "0,4KiB,1MiB", "--policy", "lirs,sieve")
    done = succeed(*words, "--samples", "200")
    # LIRS has a queue of a hundredth of its cache, which a small sample does not have at all
    assert done.stderr.startswith("3 of the policies' sizes left out: the sample has too few pages")
    told = next(line for line in done.stdout.splitlines() if "sieve" in line)
    assert "points, by sample" in told
    table = rows_of(folder.table("simulations/cache_policies"))
    assert [(row["policy"], row["capacity_bytes"]) for row in table] == [
        *(("lirs", 0), ("sieve", 0), ("sieve", 1 << 20))
    ]
    for row in table:
        assert row["reads"] == 3000
        assert row["miss_ratio_low"] <= row["miss_ratio"] <= row["miss_ratio_high"]
    answer = json_of(folder.path / "simulations" / "cache.json")
    assert any("miniature" in line for line in answer["assumptions"])
    assert answer["left_out"]["small_sizes"] == 3


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        KEPT.write_text(json.dumps(recorded(Path(scratch)), indent=1) + "\n")
