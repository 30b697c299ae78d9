"""What simulations of the volumes of a set found, side by side: caches, and storage tiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import mul
from typing import TypeVar

import numpy as np
import pyarrow.compute as pc

from tracekit.arrow import read_whole
from tracekit.errors import InputError
from tracekit.fleet.catalogue import TraceSet, opened
from tracekit.metadata import Record
from tracekit.model.tiers import RESULT as TIERS
from tracekit.model.tiers import TiersResult
from tracekit.store import INFO_NAME, TraceFolder

SHARES = (1 / 1024, 1 / 256, 1 / 64, 1 / 16, 1 / 4)
"""Of what a volume touched: so large a cache."""
ALL = "all"
AGAIN = "simulate the set again"
T = TypeVar("T")


class VolumeCache(Record, kw_only=True):
    """What LRU caches of a volume miss, of its references to pages."""

    volume: str
    references: int
    touched_bytes: int
    miss_ratios: list[float]
    """Of caches of SHARES of what it touched, or the next smaller size of its curve."""
    least_miss_ratio: float
    """Of a cache of all that it touched."""


class Caches(Record, kw_only=True):
    """The caches of a set's volumes; each volume has one of its own."""

    shares: list[float]
    volumes: list[VolumeCache]
    """The one with most references first."""
    all: VolumeCache
    left_out: dict[str, str]


class VolumeTiers(Record, kw_only=True):
    """The mixes of tiers that give a volume most IOPS for its price."""

    volume: str
    capacity_bytes: int
    with_first: str
    without_first: str
    gain_ratio: float
    """How many more IOPS for the price the first tier gives; below 0: it loses."""


class Tiers(Record, kw_only=True):
    """The mixes of a set's volumes."""

    first: str
    volumes: list[VolumeTiers]
    """Those that gain most first."""
    left_out: dict[str, str]


def caches_of(traces: TraceSet, names: Sequence[str]) -> Caches:
    """Return what `simulate cache` found of these volumes."""
    found, left_out = _each(traces, names, _cache_of)
    found.sort(key=lambda one: (-one.references, one.volume))
    references = sum(one.references for one in found)

    columns = zip(*([*one.miss_ratios, one.least_miss_ratio] for one in found), strict=True)
    weights = [one.references / max(references, 1) for one in found]
    ratios = [sum(map(mul, weights, column)) for column in columns] or [0.0] * (len(SHARES) + 1)
    together = VolumeCache(
        volume=ALL,
        references=references,
        touched_bytes=sum(one.touched_bytes for one in found),
        miss_ratios=ratios[:-1],
        least_miss_ratio=ratios[-1],
    )
    return Caches(shares=list(SHARES), volumes=found, all=together, left_out=left_out)


def _each(
    traces: TraceSet, names: Sequence[str], read: Callable[[TraceFolder, str], T]
) -> tuple[list[T], dict[str, str]]:
    """Return what is read of each volume, and why of some nothing is."""
    found, left_out = [], {}
    for volume, folder in traces.folders(INFO_NAME, "simulations/*", names={*names}):
        try:
            found.append(read(opened(folder), volume.name))
        except InputError as error:
            left_out[volume.name] = traces.shown(str(error))
    return found, left_out


def _cache_of(folder: TraceFolder, name: str) -> VolumeCache:
    rows = read_whole(folder.require("simulations/cache_curve", made_by="simulate cache"))
    whole = {"cache": "shared", "scope": ALL, "role": ALL, "operation": ALL}
    for column, word in whole.items():
        rows = rows.filter(pc.equal(rows.column(column), word))
    rows = rows.sort_by("capacity_bytes")
    names = ("capacity_bytes", "miss_ratio", "references")
    sizes, ratios, references = (rows.column(name).to_numpy() for name in names)
    if not len(sizes):
        raise InputError(f"{folder.path}: its curve of caches has no rows", hint=AGAIN)
    limits = [sizes[-1] * share for share in SHARES]
    return VolumeCache(
        volume=name,
        references=int(references.max()),
        touched_bytes=int(sizes[-1]),
        miss_ratios=ratios[np.searchsorted(sizes, limits, side="right") - 1].tolist(),
        least_miss_ratio=float(ratios[-1]),
    )


def tiers_of(traces: TraceSet, names: Sequence[str]) -> Tiers:
    """Return what `simulate tiers` found of these volumes, of extents that stay where they are."""
    found, left_out = _each(traces, names, _tiers_of)
    volumes = sorted((one for one, _ in found), key=lambda one: (-one.gain_ratio, one.volume))
    first = next((first for _, first in found), "")
    return Tiers(first=first, volumes=volumes, left_out=left_out)


def _tiers_of(folder: TraceFolder, name: str) -> tuple[VolumeTiers, str]:
    found = folder.result(TIERS, TiersResult, hint=AGAIN)
    if found is None:
        raise InputError(f"{folder.path}: there is no {TIERS}", hint=AGAIN)
    first = found.tiers[0].name
    mixes = found.configurations["static"]
    better, other = mixes[f"best with {first}"], mixes[f"best without {first}"]
    volume = VolumeTiers(
        volume=name,
        capacity_bytes=found.capacity_extents * found.extent_bytes,
        with_first=better.mix,
        without_first=other.mix,
        gain_ratio=better.iops_per_price / other.iops_per_price - 1,
    )
    return volume, first
