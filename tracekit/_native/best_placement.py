"""Which blocks to place, and how little a trace could take: `replayer/model/best_placement.h`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit._native.library import struct
from tracekit._native.placement import ROLE_COUNT, Prices, RequestKernel


@dataclass(frozen=True)
class BestSetup:
    """Blocks, each with its role, and where they are; arrays as in best_placement.h."""

    keys: NDArray[np.int64]
    roles: NDArray[np.uint8]
    devices: NDArray[np.void]
    is_issued: bool
    prices: Prices


@dataclass(frozen=True)
class BestSize:
    """Requests, groups of blocks that are always touched together, and pairs of both."""

    requests: int
    pairs: int
    groups: int


class BestKernel(RequestKernel):
    """A trace for which placements are weighed, chosen and timed."""

    kind = "tk_best"
    failure = "the best placement failed"
    result_count = 0

    def __init__(self, setup: BestSetup) -> None:
        self._block_count = len(setup.keys)
        self._timed = struct("tk_best_result")
        self._setup = struct(
            "tk_best_setup",
            keys=setup.keys,
            roles=setup.roles,
            devices=setup.devices,
            block_count=len(setup.keys),
            device_count=len(setup.devices),
            as_issued=setup.is_issued,
            prices=_fields(setup.prices),
        )
        super().__init__(
            self._setup, refusal=f"the best placement refuses {len(setup.keys)} blocks"
        )

    def finish(self, cuts: NDArray[np.uint8] | None = None) -> BestSize:
        """End the trace; groups end where requests begin or end, and before blocks with a cut."""
        self._check_rows(self._call("finish", cuts))
        return BestSize(**self._read("measure", "tk_best_size"))

    def flushes(self) -> tuple[int, ...]:
        """Return how many flushes each role has."""
        return tuple(self._totals()["flushes"])

    def orphans(self) -> int:
        """Return how many requests were merged into one that was not found."""
        return int(self._totals()["orphan_merges"])

    def reprice(self, prices: Prices) -> None:
        """Take other devices, and forget the weights."""
        self._check(self._call("reprice", struct("tk_best_prices", **_fields(prices))))

    def group_starts(self, count: int) -> NDArray[np.int64]:
        """Return the position of each group's first block."""
        starts = np.zeros(count, np.uint32)
        self._call("groups", starts)
        return starts.astype(np.int64)

    def weigh(self, rounds: int) -> None:
        """Divide savings between groups, for all capacities."""
        self._call("weigh", rounds)

    def tighten(self, blocks: int, *, target_ps: int, rounds: int) -> int:
        """Divide savings for one capacity; return the best bound there.

        The time of a placement of so many blocks says how large a bound can be.
        """
        found = np.zeros(1, np.int64)
        self._check(self._call("tighten", blocks, target_ps, rounds, found))
        return int(found[0])

    def bounds_ps(self, capacities: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the time in ps below which no placement of so many blocks falls."""
        found = np.zeros(len(capacities), np.int64)
        self._call("bound", capacities, len(capacities), found)
        return found

    def values(self, count: int) -> NDArray[np.float64]:
        """Return the weight a block of each group."""
        found = np.zeros(count, np.float64)
        self._call("values", found)
        return found

    def flush_ps(self) -> NDArray[np.float64]:
        """Return by role what flushes save where it is wholly on NVM, beside the weights."""
        found = np.zeros(ROLE_COUNT, np.float64)
        self._call("flush_ps", found)
        return found

    def choose(
        self, blocks: int, values: NDArray[np.float64], *, steps: int
    ) -> tuple[int, NDArray[np.uint8]]:
        """Fill a capacity by falling value, exchange groups, and return time in ps and blocks."""
        on_nvm = np.zeros(self._block_count, np.uint8)
        result = struct("tk_best_result")
        self._check(self._call("choose", blocks, values, steps, on_nvm, result))
        return int(result.elapsed_ps), on_nvm

    def time_ps(self, on_nvm: NDArray[np.uint8]) -> int:
        """Return the time of a placement of whole groups."""
        self._call("time", on_nvm, self._timed)
        return int(self._timed.elapsed_ps)


def _fields(prices: Prices) -> dict[str, Any]:
    """Return the fields of `struct tk_best_prices`."""
    return vars(prices) | {"disk": prices.disk or {}}
