"""From the requests of a trace to the content of a work profile."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracekit.fit.arrivals import fit_arrival
from tracekit.fit.kinds import fit_kinds
from tracekit.fit.places import Region, look_at
from tracekit.fit.requests import SECTOR_BYTES, Requests
from tracekit.schema import ROLES

MIB = 1 << 20
MIB_SECTORS = MIB // SECTOR_BYTES
OTHERS = "others"


@dataclass(frozen=True)
class FitOptions:
    """How many processes have streams of their own, what they are called, and which gaps."""

    processes: int = 8
    keeps_names: bool = False
    measured: bool = False


@dataclass(frozen=True)
class Fitted:
    """The content of the profile, and for each stream what was found on the way."""

    profile: dict[str, Any]
    facts: list[dict[str, Any]]


def fit_profile(requests: Requests, options: FitOptions) -> Fitted:
    """Return the profile: a stream for each role, device and process with many requests.

    Rare processes of a device and role share a stream. Regions of devices and roles lie one after
    the other on the target, whole MiB each.
    """
    rows = requests.rows
    regions = _regions(requests)
    span_ns = float(rows["time_ns"][-1]) + 1
    streams, facts = [], []
    looked: dict[int, Region] = {}
    for region, process, mine in _streams(requests, options):
        first, start, size = regions[region]
        arrival = fit_arrival(
            rows["time_ns"][mine].astype(np.float64), span_ns, measured=options.measured
        )
        # A trace of one region is not copied.
        here = rows["region"] == region if len(regions) > 1 else slice(None)
        if region not in looked:
            looked[region] = look_at(rows[here], first_sector=first, sectors=size // SECTOR_BYTES)
        kinds = fit_kinds(looked[region], mine[here])
        role = requests.regions[region][1]
        stream: dict[str, Any] = {"role": role if role in ROLES else "unknown"}
        stream |= {} if process is None else {"process": process}
        stream |= {"start": f"{start}", "size": f"{size}", "arrival": arrival.keys}
        if arrival.phases:
            stream["phase"] = [
                {"duration": f"{length}ns", "rate": rate} for length, rate in arrival.phases
            ]
        stream["request"] = _exact_shares([dict(kind.keys) for kind in kinds])
        streams.append(stream)
        facts.append({"role": stream["role"], "process": process, **arrival.facts})
    target = max(start + size for _, start, size in regions.values())
    return Fitted({"target_size": f"{target}", "stream": streams}, facts)


def _exact_shares(kinds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Round the shares so that they still add up to 1."""
    for kind in kinds:
        kind["share"] = round(kind["share"], 7)
    largest = max(kinds, key=lambda kind: kind["share"])
    largest["share"] = round(1 - sum(k["share"] for k in kinds if k is not largest), 7)
    return kinds


def _regions(requests: Requests) -> dict[int, tuple[int, int, int]]:
    """Return each region's first sector in the trace, and where it starts and its size in bytes.

    A region without an address, of flushes alone, has a MiB.
    """
    rows = requests.rows
    placed: dict[int, tuple[int, int, int]] = {}
    start = 0
    for region in np.flatnonzero(np.bincount(rows["region"])).tolist():
        mine = rows[(rows["region"] == region) & (rows["sectors"] > 0)]
        low, high = 0, MIB_SECTORS
        if len(mine):
            low = int(mine["sector"].min()) // MIB_SECTORS * MIB_SECTORS
            high = int((mine["sector"] + mine["sectors"]).max())
        size = -(-(high - low) // MIB_SECTORS) * MIB
        placed[region] = (low, start, size)
        start += size
    return placed


def _streams(
    requests: Requests, options: FitOptions
) -> list[tuple[int, str | None, np.ndarray[Any, np.dtype[np.bool_]]]]:
    """Return region, name and rows of each stream, the one with most requests first."""
    rows = requests.rows
    key = rows["region"].astype(np.int64) * len(requests.owners) + rows["owner"]
    counts = Counter(dict(enumerate(np.bincount(key).tolist())))
    kept = [one for one, count in counts.most_common(options.processes) if count]
    names: dict[str, str] = {}
    found = []
    for one in kept:
        region, owner = divmod(one, len(requests.owners))
        process = requests.owners[owner][1]
        if process is not None and not options.keeps_names:
            process = names.setdefault(process, f"process {len(names) + 1}")
        found.append((region, process, key == one))
    is_rest = ~np.isin(key, kept)
    for region in np.flatnonzero(np.bincount(rows["region"][is_rest])).tolist():
        found.append((region, OTHERS, is_rest & (rows["region"] == region)))
    return found
