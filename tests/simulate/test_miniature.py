"""Policies on a sample of the pages, against the whole trace and a filter in plain Python."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.command_line import succeed
from tests.simulate import cache_models
from tests.simulate.policy_models import hash_of
from tests.simulate.test_cache_kernels import accesses as workload
from tests.simulate.traces import make_trace
from tests.traces import json_of, rows_of
from tracekit._native import caches
from tracekit._native.caches import SHARDS_SCALE, CacheSetup
from tracekit.model import miniature
from tracekit.model.miniature import Estimate, Miniature
from tracekit.model.miss_ratio_curve import Accesses


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
