"""What each policy keeps in one cache level, and what goes on behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.native.caches import Cache, CacheCounts, CacheSetup, next_uses
from tracekit.simulate.cache_passes import parts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OnStep = Callable[[str, int, int], None]


@dataclass(frozen=True)
class PolicyResult:
    """One policy at one size in pages."""

    policy: str
    capacity: int
    counts: CacheCounts


def simulate_policies(
    setups: Iterable[CacheSetup], runs: NDArray[np.void], *, on_step: OnStep
) -> list[PolicyResult]:
    """Go through the runs once for each setup; those of one policy share its future."""
    listed = list(setups)
    found = []
    future: NDArray[np.uint32] | None = None
    for at, setup in enumerate(listed):
        on_step(f"{setup.policy}, {setup.capacity:,} pages", at, len(listed))
        if setup.policy != "optimum":
            future = None
        elif future is None:
            future = next_uses(setup, runs)
        found.append(PolicyResult(setup.policy, setup.capacity, _simulate(setup, runs, future)))
    return found


def _simulate(
    setup: CacheSetup, runs: NDArray[np.void], future: NDArray[np.uint32] | None
) -> CacheCounts:
    with Cache(setup) as cache:
        done = 0
        for part in parts(runs):
            count = int(part["count"].sum()) if future is not None else 0
            cache.add(part, None if future is None else future[done : done + count])
            done += count
        return cache.read()
