"""Mixes of tiers and what they give for their price: the nine steps of study B (FAST'14, 4.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

from tracekit.errors import UsageError
from tracekit.native.tiering import (
    DEMOTED_IN,
    DEMOTED_OUT,
    PROMOTED_IN,
    PROMOTED_OUT,
    READS,
    TIER_VALUES,
    WRITES,
    Tiering,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROUNDINGS = ("floor", "nearest", "ceiling")
MAX_MIXES = 1_000_000
MIB = 1 << 20
BLOCK_BYTES = 4096


@dataclass(frozen=True)
class Tier:
    """One tier of storage: mean latencies of 4 KiB, and the price of a gigabyte.

    Bandwidths are None where they are not known; the transfer of the 4 KiB is in the latencies.
    """

    name: str
    read_latency_us: float
    write_latency_us: float
    price_per_gb: float
    read_mib_s: float | None = None
    write_mib_s: float | None = None

    def changed(self, key: str, factor: float) -> Tier:
        """Return the tier with a value times a factor; a bandwidth takes its transfer along.

        Of the latency of 4 KiB at most all is transfer.
        """
        values = {key: getattr(self, key) * factor}
        operation = {"read_mib_s": "read", "write_mib_s": "write"}.get(key)
        if operation is not None:
            latency_us = getattr(self, f"{operation}_latency_us")
            transfer_us = min(transfer_time_us(BLOCK_BYTES, getattr(self, key)), latency_us)
            values[f"{operation}_latency_us"] = latency_us + (1 / factor - 1) * transfer_us
        return replace(self, **values)


@dataclass(frozen=True)
class Moving:
    """What moving an extent costs: times by tier, in the unit of the traffic times us.

    An extent is read from one tier and written to the other; the factors are of whole moves.
    """

    read: NDArray[np.float64]
    write: NDArray[np.float64]
    promotion: float
    demotion: float


@dataclass(frozen=True)
class Mixes:
    """Shares of the capacity in whole parts of 1 / `parts`, a row a mix and a column a tier."""

    parts: int
    shares: NDArray[np.int64]
    places: NDArray[np.uint32]  # extents that each tier has room for

    def ratios(self) -> NDArray[np.float64]:
        """Return the shares as ratios of 0 to 1."""
        ratios: NDArray[np.float64] = self.shares / self.parts
        return ratios


@dataclass(frozen=True)
class Outcome:
    """What each mix gives, an entry a mix."""

    latency_us: NDArray[np.float64]
    iops: NDArray[np.float64]
    price_per_gb: NDArray[np.float64]
    iops_per_price: NDArray[np.float64]


def transfer_time_us(length_bytes: float, mib_s: float) -> float:
    """Return how long bytes take at a bandwidth."""
    return length_bytes / MIB / mib_s * 1e6


def all_mixes(tier_count: int, *, step_percent: int, extents: int, rounding: str) -> Mixes:
    """Return every mix in steps of `step_percent`, ordered by the share of the first tier.

    `extents` is the capacity, of which each tier but the last gets its share, rounded; the last
    gets what is left. UsageError when there would be more than a million mixes.
    """
    import numpy as np

    parts = 100 // step_percent
    count = math.comb(parts + tier_count - 1, tier_count - 1)
    if count > MAX_MIXES:
        raise UsageError(
            f"{tier_count} tiers in steps of {step_percent} % make {count:,} mixes",
            hint="take a larger --step, such as 5 or 10",
        )
    # Stars and bars: the places of the bars between the tiers make one mix.
    bars = np.array(list(combinations(range(parts + tier_count - 1), tier_count - 1)), np.int64)
    edges = np.pad(bars, ((0, 0), (1, 1)), constant_values=(-1, parts + tier_count - 1))
    shares = np.diff(edges, axis=1) - 1
    return Mixes(parts, shares, places_of(shares, parts, extents=extents, rounding=rounding))


def places_of(
    shares: NDArray[np.int64], parts: int, *, extents: int, rounding: str
) -> NDArray[np.uint32]:
    """Return how many extents each tier holds; a rounded sum is never above `extents`."""
    import numpy as np

    added = {"floor": 0, "nearest": parts // 2, "ceiling": parts - 1}[rounding]
    faster = (shares[:, :-1] * extents + added) // parts
    ends = np.minimum(faster.cumsum(axis=1), extents)
    return np.diff(np.pad(ends, ((0, 0), (1, 1)), constant_values=(0, extents)), axis=1).astype(
        np.uint32
    )


def latencies_us(tiers: Sequence[Tier]) -> NDArray[np.float64]:
    """Return read and write latency, a row a tier."""
    import numpy as np

    return np.array([(tier.read_latency_us, tier.write_latency_us) for tier in tiers])


def static_shares(
    tiers: Sequence[Tier], reads: NDArray[np.int64], *, writes: NDArray[np.int64], mixes: Mixes
) -> NDArray[np.void]:
    """Return extents, reads and writes of each tier in each mix: steps 2 to 5."""
    with Tiering(latencies_us(tiers), reads, writes=writes) as model:
        return model.mixes(mixes.places[:, :-1])


def static_outcome(tiers: Sequence[Tier], mixes: Mixes, *, shares: NDArray[np.void]) -> Outcome:
    """Return steps 6 to 9 for what `static_shares` gave."""
    time_us = (shares["reads"] * latencies_us(tiers)[:, 0]).sum(axis=1)
    time_us += (shares["writes"] * latencies_us(tiers)[:, 1]).sum(axis=1)
    total = shares["reads"].sum(axis=1) + shares["writes"].sum(axis=1)
    return outcome(tiers, mixes, latency_us=time_us / total)


def dynamic_latency_us(
    tiers: Sequence[Tier], records: NDArray[np.int64], *, moving: Moving | None
) -> NDArray[np.float64]:
    """Return the mean latency of each record of `native.tiering.Migration`.

    Without `moving` the moves are left out of the time, as a background task.
    """
    values = records[:, : TIER_VALUES * len(tiers)].reshape(len(records), len(tiers), TIER_VALUES)
    read_us, write_us = latencies_us(tiers).T
    time_us = (values[:, :, READS] * read_us + values[:, :, WRITES] * write_us).sum(axis=1)
    if moving is not None:
        up, down = moving.promotion, moving.demotion
        left = up * values[:, :, PROMOTED_OUT] + down * values[:, :, DEMOTED_OUT]
        came = up * values[:, :, PROMOTED_IN] + down * values[:, :, DEMOTED_IN]
        time_us = time_us + (left * moving.read + came * moving.write).sum(axis=1)
    latency: NDArray[np.float64] = time_us / values[:, :, :2].sum(axis=(1, 2))
    return latency


def outcome(tiers: Sequence[Tier], mixes: Mixes, *, latency_us: NDArray[np.float64]) -> Outcome:
    """Return IOPS and price of each mix: 1 / latency, and the shares times the tiers' prices."""
    import numpy as np

    price = mixes.ratios() @ np.array([tier.price_per_gb for tier in tiers])
    iops = 1e6 / latency_us
    return Outcome(latency_us, iops, price, iops / price)


def best(values: NDArray[np.float64], among: NDArray[np.bool_] | None = None) -> int:
    """Return the index of the largest value, the first of equals; `among` leaves others out."""
    import numpy as np

    return int(np.argmax(values if among is None else np.where(among, values, -1.0)))
