"""Static and dynamic tiering: `replayer/model/` tiering.h and migration.h for numpy."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit._native.library import Owned, columns_for, constant, dtype_of, struct
from tracekit.errors import InputError

MIN_TIERS = constant("TIERS_MIN")
MAX_TIERS = constant("TIERS_MAX")
MAX_SUMMED_TIERS = constant("TIERING_MAX_SUMMED")  # with more, each mix is a loop over the extents
SHARE = dtype_of("struct tk_tier_share")
# Values of a tier in a record: traffic, then extents out of it and into it, up and down.
READS, WRITES, PROMOTED_OUT, PROMOTED_IN, DEMOTED_OUT, DEMOTED_IN = range(6)
TIER_VALUES = 6


@dataclass(frozen=True)
class Windows:
    """Traffic by window: items first_item[w] to first_item[w + 1] - 1, ascending by extent."""

    first_item: NDArray[np.uint64]
    extent: NDArray[np.uint32]
    reads: NDArray[np.int64]
    writes: NDArray[np.int64]


class _Model(Owned):
    failure = "the tiering model failed"

    def _check(self, status: int, failure: str | None = None) -> int:
        if status == -errno.ERANGE:
            raise InputError("the trace's traffic does not fit 64 bits", hint="parse it again")
        return super()._check(status, failure)


class Tiering(_Model):
    """The extents of a trace in the order of placement, for one set of tiers.

    `latencies_us` has a row of read and write latency for each tier, the slowest tier last.
    """

    kind = "tk_tiering"

    def __init__(
        self,
        latencies_us: NDArray[np.float64],
        reads: NDArray[np.int64],
        *,
        writes: NDArray[np.int64],
    ) -> None:
        self._traffic = _exact(reads, np.int64), _exact(writes, np.int64)  # read until it is freed
        self._tier_count = len(latencies_us)
        super().__init__(_tiers(latencies_us), self._tier_count, *self._traffic, len(reads))

    def mixes(self, places: NDArray[np.uint32]) -> NDArray[np.void]:
        """Return what each tier gets (SHARE), for each row of capacities of the faster tiers."""
        shares = np.empty((len(places), self._tier_count), SHARE)
        self._call("mixes", _exact(places, np.uint32), len(places), shares)
        return shares

    def place(self, places: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """Return the tier of each extent for one row of capacities, by Algorithm 1 itself."""
        tiers = np.empty(len(self._traffic[0]), np.uint8)
        self._call("place", _exact(places, np.uint32), tiers)
        return tiers


class Migration(_Model):
    """A trace's windows, for one set of tiers and a number of moves a window."""

    kind = "tk_migration"

    def __init__(
        self,
        latencies_us: NDArray[np.float64],
        windows: Windows,
        *,
        extent_count: int,
        window_moves: int,
    ) -> None:
        self._tier_count = len(latencies_us)
        self._window_count = len(windows.first_item) - 1
        self._setup = struct(
            "tk_migration_setup",
            tiers=_tiers(latencies_us),
            **columns_for("tk_migration_setup", windows),
            tier_count=self._tier_count,
            extent_count=extent_count,
            window_count=self._window_count,
            window_moves=window_moves,
        )
        super().__init__(self._setup)

    def totals(self, places: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return one record a mix: TIER_VALUES for each tier, then promotions and demotions.

        `places` has a row of capacities of all tiers, in extents, for each mix.
        """
        return self._run(places, windows=None)

    def windows(self, places: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Return one such record a window for a single mix."""
        records = np.empty((self._window_count, self._values), np.int64)
        self._run(places[np.newaxis, :], windows=records)
        return records

    @property
    def _values(self) -> int:
        return TIER_VALUES * self._tier_count + 2

    def _run(
        self, places: NDArray[np.uint32], *, windows: NDArray[np.int64] | None
    ) -> NDArray[np.int64]:
        totals = np.empty((len(places), self._values), np.int64)
        exact = _exact(places, np.uint32)
        self._check(self._call("run", exact, len(exact), totals, windows))
        return totals


def _tiers(latencies_us: NDArray[np.float64]) -> NDArray[np.void]:
    """Return rows of latencies as an array of `struct tk_tier`."""
    return _exact(latencies_us, np.float64).view(dtype_of("struct tk_tier")).reshape(-1)


def _exact(values: NDArray[Any], kind: type[np.generic]) -> NDArray[Any]:
    return np.ascontiguousarray(values, kind)
