"""Mixes of tiers and what they give for their price: the nine steps of study B (FAST'14, 4.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracekit._native import tiering
from tracekit._native.tiering import TIER_VALUES
from tracekit.arrow import Floats, Integers, name_codes, numbers
from tracekit.errors import InputError, UsageError
from tracekit.store import TraceFolder
from tracekit.tables import ROLES, role_codes
from tracekit.units import BLOCK_BYTES, MIB, SECTOR_BYTES

MAX_MIXES = 1_000_000
LARGEST_REMAINDER = "largest-remainder"
EXTENT_BITS = 48  # of a key, below the number of the device
WHOLE_TRACE_NS = (1 << 63) - 1
AMOUNTS = {"bytes": ("read_bytes", "write_bytes"), "requests": ("read_count", "write_count")}


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

    read: Floats
    write: Floats
    promotion: float
    demotion: float


@dataclass(frozen=True)
class Mixes:
    """Shares of the capacity in whole parts of 1 / `parts`, a row a mix and a column a tier."""

    parts: int
    shares: Integers
    places: NDArray[np.uint32]  # extents that each tier can take
    is_whole: bool = False  # what is bought is whole extents: by largest remainder

    def ratios(self) -> Floats:
        """Return the shares as ratios of 0 to 1."""
        ratios: Floats = self.shares / self.parts
        return ratios

    def bought(self) -> Floats:
        """Return what is paid for, as ratios: whole extents, or as in the study the shares."""
        return self.places / self.places[:1].sum() if self.is_whole else self.ratios()

    def best(self, values: Floats, *, first: bool | None = None) -> int:
        """Return the mix with the largest value, with or without the first tier if that is given.

        Where whole extents are bought, a mix must hold one of each of its tiers, and of mixes that
        are the same extents the one with the nearest shares is taken; else the first.
        """
        among: NDArray[np.bool_] = np.ones(len(values), bool)
        if self.is_whole:
            among = np.all((self.shares == 0) | (self.places > 0), axis=1)
        if first is not None:
            among = among & ((self.shares[:, 0] > 0) == first)
        most = np.where(among, values, -1.0)
        equal = np.flatnonzero(most == most.max())
        apart = np.abs(self.ratios()[equal] - self.bought()[equal]).sum(axis=1)
        return int(equal[apart.argmin()])


@dataclass(frozen=True)
class Outcome:
    """What each mix gives, an entry a mix."""

    latency_us: Floats
    iops: Floats
    price_per_gb: Floats
    iops_per_price: Floats


def transfer_time_us(length_bytes: float, mib_s: float) -> float:
    """Return how long bytes take at a bandwidth."""
    return length_bytes / MIB / mib_s * 1e6


def all_mixes(tier_count: int, *, step_percent: int, extents: int, rounding: str) -> Mixes:
    """Return every mix in steps of `step_percent`, ordered by the share of the first tier.

    `extents` is the capacity, of which each tier gets its share, rounded.
    UsageError for more than a million mixes.
    """
    parts = 100 // step_percent
    count = math.comb(parts + tier_count - 1, tier_count - 1)
    if count > MAX_MIXES:
        raise UsageError(
            f"{tier_count} tiers in steps of {step_percent}% make {count:,} mixes",
            hint="take a larger --step, such as 5 or 10",
        )
    # Stars and bars: the places of the bars between the tiers make one mix.
    bars = np.array(list(combinations(range(parts + tier_count - 1), tier_count - 1)), np.int64)
    edges = np.pad(bars, ((0, 0), (1, 1)), constant_values=(-1, parts + tier_count - 1))
    shares = np.diff(edges, axis=1) - 1
    places = places_of(shares, parts, extents=extents, rounding=rounding)
    return Mixes(parts, shares, places, rounding == LARGEST_REMAINDER)


def places_of(shares: Integers, parts: int, *, extents: int, rounding: str) -> NDArray[np.uint32]:
    """Return how many extents each tier takes; their sum is `extents`.

    By largest remainder no tier is more than an extent away from its share, of equal remainders the
    faster tier gets the extent, and a tier without a share gets none. In the other ways the last
    tier takes what the rounded shares of the others leave, bought or not.
    """
    if rounding == LARGEST_REMAINDER:
        places, remainders = np.divmod(shares * extents, parts)
        rank = np.argsort(np.argsort(-remainders, axis=1, kind="stable"), axis=1)
        places += rank < (extents - places.sum(axis=1))[:, None]
        return places.astype(np.uint32)
    added = {"floor": 0, "nearest": parts // 2, "ceiling": parts - 1}[rounding]
    faster = (shares[:, :-1] * extents + added) // parts
    ends = np.minimum(faster.cumsum(axis=1), extents)
    return np.diff(np.pad(ends, ((0, 0), (1, 1)), constant_values=(0, extents)), axis=1).astype(
        np.uint32
    )


def latencies_us(tiers: Sequence[Tier]) -> Floats:
    """Return read and write latency, a row a tier."""
    return np.array([(tier.read_latency_us, tier.write_latency_us) for tier in tiers])


def static_shares(
    tiers: Sequence[Tier], reads: Integers, *, writes: Integers, mixes: Mixes
) -> NDArray[np.void]:
    """Return extents, reads and writes of each tier in each mix: steps 2 to 5."""
    with tiering.Tiering(latencies_us(tiers), reads, writes=writes) as model:
        return model.mixes(mixes.places[:, :-1])


def static_outcome(tiers: Sequence[Tier], mixes: Mixes, *, shares: NDArray[np.void]) -> Outcome:
    """Return steps 6 to 9 for what `static_shares` gave."""
    time_us = (shares["reads"] * latencies_us(tiers)[:, 0]).sum(axis=1)
    time_us += (shares["writes"] * latencies_us(tiers)[:, 1]).sum(axis=1)
    total = shares["reads"].sum(axis=1) + shares["writes"].sum(axis=1)
    return outcome(tiers, mixes, latency_us=time_us / total)


def dynamic_latency_us(
    tiers: Sequence[Tier], records: Integers, *, moving: Moving | None
) -> Floats:
    """Return the mean latency of each record of `native.tiering.Migration`.

    Without `moving` the moves are left out of the time, as a background task.
    """
    values = records[:, : TIER_VALUES * len(tiers)].reshape(len(records), len(tiers), TIER_VALUES)
    read_us, write_us = latencies_us(tiers).T
    time_us = (values[:, :, tiering.READS] * read_us + values[:, :, tiering.WRITES] * write_us).sum(
        axis=1
    )
    if moving is not None:
        up, down = moving.promotion, moving.demotion
        left = up * values[:, :, tiering.PROMOTED_OUT] + down * values[:, :, tiering.DEMOTED_OUT]
        came = up * values[:, :, tiering.PROMOTED_IN] + down * values[:, :, tiering.DEMOTED_IN]
        time_us = time_us + (left * moving.read + came * moving.write).sum(axis=1)
    latency: Floats = time_us / values[:, :, :2].sum(axis=(1, 2))
    return latency


def outcome(tiers: Sequence[Tier], mixes: Mixes, *, latency_us: Floats) -> Outcome:
    """Return IOPS and price of each mix: 1 / latency, and what is bought by the tiers' prices."""
    price = mixes.bought() @ np.array([tier.price_per_gb for tier in tiers])
    iops = 1e6 / latency_us
    return Outcome(latency_us, iops, price, iops / price)


@dataclass(frozen=True)
class Extents:
    """The touched extents by device and place, with their traffic in bytes or requests."""

    devices: list[str]
    device: Integers  # index in `devices`
    number: Integers  # from the start of the device
    reads: Integers
    writes: Integers
    role_reads: Integers  # a row a role of schema.ROLES
    role_writes: Integers
    windows: tiering.Windows  # those with traffic
    window_numbers: Integers
    left_out: dict[str, int]  # requests that are no traffic, by reason


class _Rows(NamedTuple):
    """The rows of analyzers/traffic/extents.sql as arrays, in its order."""

    window: Integers
    key: Integers
    role: Integers
    reads: Integers
    writes: Integers


def read_extents(
    folder: TraceFolder, *, extent_bytes: int, window_ns: int | None, amount: str
) -> Extents:
    """Gather the traffic of a trace; `window_ns` None takes the whole trace as one window.

    Raise InputError when nothing was read or written.
    """
    folder.require("requests", made_by="parse")
    extent_sectors = extent_bytes // SECTOR_BYTES
    parameters = {"extent_sectors": extent_sectors, "window_ns": window_ns or WHOLE_TRACE_NS}
    devices: list[str] = []
    from tracekit import query

    with query.connect(folder) as connection:
        left_out = query.run(connection, "traffic/left_out").to_pylist()
        batches = [
            _read_batch(batch, devices, amount)
            for batch in query.stream(connection, "traffic/extents", **parameters)
        ]
    rows = _Rows(*map(np.concatenate, zip(*batches, strict=True))) if batches else None
    if rows is None or not (rows.reads.any() or rows.writes.any()):
        raise InputError(f"{folder.path}: nothing was read or written, so there is nothing to tier")
    return _gather(rows, devices, {row["reason"]: row["request_count"] for row in left_out})


def _read_batch(batch: Any, devices: list[str], amount: str) -> _Rows:
    device = name_codes(batch.column("device"), devices, grow=True).astype(np.int64)
    key = (device << EXTENT_BITS) | numbers(batch.column("extent"))
    reads, writes = (numbers(batch.column(name)).copy() for name in AMOUNTS[amount])
    role = role_codes(batch.column("role")).astype(np.int64)
    return _Rows(numbers(batch.column("window_number")).copy(), key, role, reads, writes)


def _gather(rows: _Rows, devices: list[str], left_out: dict[str, int]) -> Extents:
    # Devices get their numbers in the order of their names, in which the rows of a window are.
    names = sorted(devices)
    rank = np.array([names.index(name) for name in devices], np.int64)
    low = (np.int64(1) << EXTENT_BITS) - 1
    key = (rank[rows.key >> EXTENT_BITS] << EXTENT_BITS) | (rows.key & low)
    keys, extent = np.unique(key, return_inverse=True)
    role_reads = np.zeros((len(ROLES), len(keys)), np.int64)
    role_writes = np.zeros_like(role_reads)
    np.add.at(role_reads, (rows.role, extent), rows.reads)
    np.add.at(role_writes, (rows.role, extent), rows.writes)
    windows, window_numbers = _windows(rows, extent)
    return Extents(
        devices=names,
        device=keys >> EXTENT_BITS,
        number=keys & low,
        reads=role_reads.sum(axis=0),
        writes=role_writes.sum(axis=0),
        role_reads=role_reads,
        role_writes=role_writes,
        windows=windows,
        window_numbers=window_numbers,
        left_out=left_out,
    )


def _windows(rows: _Rows, extent: Integers) -> tuple[tiering.Windows, Integers]:
    """Add up the roles of each window and extent, which follow each other."""
    is_first = np.ones(len(extent), bool)
    is_first[1:] = (np.diff(rows.window) != 0) | (np.diff(extent) != 0)
    starts = np.flatnonzero(is_first)
    numbers, first_item = np.unique(rows.window[starts], return_index=True)
    windows = tiering.Windows(
        first_item=np.append(first_item, len(starts)).astype(np.uint64),
        extent=extent[starts].astype(np.uint32),
        reads=np.add.reduceat(rows.reads, starts),
        writes=np.add.reduceat(rows.writes, starts),
    )
    return windows, numbers
