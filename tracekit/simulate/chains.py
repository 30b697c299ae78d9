"""Which placements one thread walks: chains of them, of which each holds the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# What a request costs a chain beside its placements, in those: with queues each has its servers.
CHAIN_COST = 30
SERIAL_THREADS = 2


def chains(scenarios: NDArray[np.void]) -> list[list[int]]:
    """Put each placement into the first chain that it continues, as the kernel does."""
    import numpy as np

    found: list[list[int]] = []
    lasts = np.zeros((0, scenarios["limit"].shape[1]), np.int64)
    orders = np.zeros(0, np.int64)
    for index, scenario in enumerate(scenarios):
        limit = scenario["limit"].astype(np.int64)
        fits = (orders == scenario["order"]) & (lasts <= limit).all(axis=1)
        if not fits.any():
            found.append([])
            lasts = np.vstack([lasts, limit])
            orders = np.append(orders, scenario["order"])
        chain = int(np.argmax(fits)) if fits.any() else len(found) - 1
        found[chain].append(index)
        lasts[chain] = limit
    return found


def shares_of_work(
    scenarios: NDArray[np.void], threads: int, *, is_open: bool
) -> list[NDArray[np.int64]]:
    """Divide placements between threads; each share has the first, the base alone.

    With queues a chain takes the longer, the more placements it has, and chains are divided.
    Without, finding the blocks of a request in an order weighs as much as some chains, so that
    orders are. What takes longest goes to the thread with least to do, and so on.
    """
    import numpy as np

    tasks: dict[int, list[int]] = {}
    costs: dict[int, int] = {}
    for number, chain in enumerate(chains(scenarios)):
        name = number if is_open else int(scenarios["order"][chain[0]])
        tasks.setdefault(name, []).extend(chain)
        costs[name] = costs.get(name, 0) + CHAIN_COST + (len(chain) if is_open else 0)
    work = [0] * max(threads if is_open else min(threads, SERIAL_THREADS), 1)
    shares: list[list[int]] = [[] for _ in work]
    for name in sorted(tasks, key=lambda name: -costs[name]):
        least = min(range(len(work)), key=lambda thread: (work[thread], thread))
        work[least] += costs[name]
        shares[least] += tasks[name]
    return [np.unique([0, *share]) for share in shares if share]
