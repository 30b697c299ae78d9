"""The tiering models: the sums beside the loop that they replace, and dynamic tiering."""

import time

import numpy as np
from numpy.typing import NDArray

from tests.bench.harness import Bench, peak_mib, timed
from tracekit._native.tiering import Migration, Tiering, Windows
from tracekit.model.tier_mixes import Mixes, Tier, all_mixes, latencies_us, static_outcome

TIERS = [
    Tier("ssd-pcm", 6.7, 128.3, 24.0),
    Tier("ssd-emlc", 108.0, 37.1, 6.0),
    Tier("hdd-15k", 5000.0, 5000.0, 1.0),
]
WINDOWS = 84  # a week of two hours each
WINDOW_MOVES = 288  # extents of 1 GiB at 41 MiB/s
LOOPED = 25  # mixes that the loop is timed with


def traffic(extents: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return skewed reads and writes, in bytes."""
    reads, writes = (rng.pareto(shape, extents) * 1e8 for shape in (1.1, 1.3))
    return reads.astype(np.int64), writes.astype(np.int64)


def static(out: Bench, extents: int, mixes: Mixes, rng: np.random.Generator) -> None:
    """Time all mixes by sums, and some by the loop, which must give the same traffic."""
    reads, writes = traffic(extents, rng)
    begin_s = time.perf_counter()
    with Tiering(latencies_us(TIERS), reads, writes=writes) as model:
        ranked_s = time.perf_counter()
        shares = model.mixes(mixes.places[:, :-1])
        looked_up_s = time.perf_counter()
        static_outcome(TIERS, mixes, shares=shares)
        priced_s = time.perf_counter()
        chosen = rng.choice(len(mixes.places), LOOPED, replace=False)
        for mix in chosen:
            tier_of = model.place(mixes.places[mix, :-1])
            looped = [int(reads[tier_of == tier].sum()) for tier in range(len(TIERS))]
            if looped != shares[mix]["reads"].tolist():
                raise SystemExit(f"mix {mix}: the loop gives {looped}")
        loop_s = (time.perf_counter() - priced_s) / LOOPED * len(mixes.places)
    parts = {"ranking_s": ranked_s - begin_s, "mixes_s": looked_up_s - ranked_s}
    all_s = {"all_s": priced_s - begin_s, "by_a_loop_s": loop_s}
    out.row(f"static, {extents:,} extents", mixes=len(mixes.places), **parts, **all_s)


def dynamic(out: Bench, extents: int, rng: np.random.Generator) -> None:
    """Time one mix over a week of windows that each touch a third of the extents."""
    touched = [
        np.sort(rng.choice(extents, max(1, extents // 3), replace=False)) for _ in range(WINDOWS)
    ]
    first = np.cumsum([0, *map(len, touched)])
    reads, writes = traffic(int(first[-1]), rng)
    items = np.concatenate(touched).astype(np.uint32)
    windows = Windows(first.astype(np.uint64), items, reads, writes)
    setup = {"extent_count": extents, "window_moves": WINDOW_MOVES}
    places = np.array([[extents // 5, extents // 2, extents - extents // 5 - extents // 2]])
    with Migration(latencies_us(TIERS), windows, **setup) as model:
        _, used = timed(model.totals, places.astype(np.uint32))
    rate = (WINDOWS * extents + len(reads)) / used.wall_s / 1e6
    figures = {"wall_s": used.wall_s, "M extents/s": rate}
    out.row(f"dynamic, {extents:,} extents, {WINDOWS} windows", **figures)


def bench_tiers(out: Bench, *, extents: int = 100_000) -> None:
    """The mixes are all of three tiers in steps of 1 %; the loop places every extent anew."""
    rng = np.random.default_rng(1)
    mixes = all_mixes(3, step_percent=1, extents=extents, rounding="floor")
    static(out, extents, mixes, rng)
    dynamic(out, extents, rng)
    out.row("both", peak_mib=peak_mib())
