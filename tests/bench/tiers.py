"""Time the tiering models: the sums beside the loop that they replace, and dynamic tiering.

    python tests/bench/tiers.py --extents 100000

The mixes are all of three tiers in steps of 1 %. The loop places every extent of a mix anew; both
must come to the same traffic of each tier.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from numpy.typing import NDArray

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


def time_static(extents: int, mixes: Mixes, rng: np.random.Generator) -> None:
    """Print the time of all mixes by sums, and of as many by the loop."""
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
        loop_s = (time.perf_counter() - priced_s) / LOOPED
    print(
        f"static: {len(mixes.places):,} mixes of {extents:,} extents in {priced_s - begin_s:.3f} s"
        f" (ranking and sums {ranked_s - begin_s:.3f}, mixes {looked_up_s - ranked_s:.4f});"
        f" the loop takes {loop_s * 1e3:.2f} ms a mix, {loop_s * len(mixes.places):.1f} s for all"
    )


def time_dynamic(extents: int, rng: np.random.Generator) -> None:
    """Print the time of one mix over a week of windows that each touch a third of the extents."""
    touched = [
        np.sort(rng.choice(extents, max(1, extents // 3), replace=False)) for _ in range(WINDOWS)
    ]
    first_item = np.cumsum([0, *map(len, touched)])
    reads, writes = traffic(int(first_item[-1]), rng)
    windows = Windows(
        first_item.astype(np.uint64), np.concatenate(touched).astype(np.uint32), reads, writes
    )
    places = np.array([[extents // 5, extents // 2, extents - extents // 5 - extents // 2]])
    with Migration(
        latencies_us(TIERS), windows, extent_count=extents, window_moves=WINDOW_MOVES
    ) as model:
        begin_s = time.perf_counter()
        model.totals(places.astype(np.uint32))
        elapsed_s = time.perf_counter() - begin_s
    work = WINDOWS * extents + len(reads)
    print(
        f"dynamic: one mix of {extents:,} extents in {WINDOWS} windows in {elapsed_s * 1e3:.0f} ms,"
        f" {work / elapsed_s / 1e6:.0f} million extents looked at a second"
    )


def main() -> None:
    """Time both models on made traffic."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extents", type=int, default=100_000)
    extents = parser.parse_args().extents
    rng = np.random.default_rng(1)
    time_static(extents, all_mixes(3, step_percent=1, extents=extents, rounding="floor"), rng)
    time_dynamic(extents, rng)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
