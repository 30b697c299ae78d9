"""Where blocks of devices lie that have no order, as in a cache: by the remaps of each device.

Each level of the device mapper says of each I/O which place it is of on the device above. From the
highest device, whose roles are known, they lead down to the disks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit.layout import FOUND_BY_REMAPS
from tracekit.units import PAGE_BYTES, SECTOR_BYTES

REMAP = np.dtype(
    [
        *(("time", "u8"), ("device", "u4"), ("bytes", "u4")),
        *(("source", "u4"), ("source_sector", "u8"), ("target", "u4"), ("sector", "u8")),
    ]
)
"""A remap: of a place on `source` to one on `target`, recorded for `device`."""
Remaps = NDArray[np.void]
MOST_NS = 100_000_000
"""From a remap to that of the device below."""
MOST_LEVELS = 16
MOST_RUNS = 1 << 16
MOST_REMAPS = 1 << 23
"""They are all in memory, with about 200 bytes each."""
UNKNOWN = "unknown"
PAGE_SECTORS = PAGE_BYTES // SECTOR_BYTES


def followed(layout: Mapping[str, Any], remaps: Remaps) -> Mapping[str, Any]:
    """Return the layout with entries for the blocks that requests of the capture went to.

    Roles are those of `above`. A page that had blocks of several roles one after the other, which
    `doubts` counts, or of none has no entry and is in `open_places`.
    """
    entries, instead = layout["partitions"], layout["above"].get("doubts", {})
    if len(remaps) > MOST_REMAPS:
        return _unfollowed(layout, f"more than {MOST_REMAPS:,} remaps")
    doubts = [instead.get(doubt, doubt) for doubt in layout.get("doubts", ())]
    bases = [one for one in entries if one.get("is_unordered")]
    found: list[dict[str, Any]] = []
    open_places: dict[str, list[tuple[int, int]]] = {}
    names = [*dict.fromkeys([UNKNOWN, *(one["role"] for one in layout["above"]["partitions"])])]
    rows, codes = _at_disks(layout, remaps, names)
    for disk in layout["devices"]:
        own = rows["target"] == number_of(disk)
        pages, page_codes = _pages(rows[own], codes[own])
        # Of bases that overlap the smaller one has the place, of one size the later.
        ours = [one for one in reversed(bases) if one["device"] == disk["device"]]
        for base in sorted(ours, key=lambda one: one["sectors"]):
            inside = _inside(pages, base)
            runs, mixed = _runs(pages[inside], page_codes[inside])
            pages, page_codes = pages[~inside], page_codes[~inside]
            found += [_entry(base, first, end, names[code]) for first, end, code in runs if code]
            places = [(first, end - first) for first, end, code in runs if not code]
            if places:
                open_places.setdefault(disk["device"], []).extend(places)
            if mixed:
                doubts.append(
                    f"{mixed:,} pages of {base['name']} had blocks of several roles one after the"
                    " other: what requests there do decides their roles"
                )
    if len(found) + sum(map(len, open_places.values())) > MOST_RUNS:
        return _unfollowed(layout, f"more than {MOST_RUNS:,} places that remaps lead to")
    more: dict[str, Any] = {"open_places": open_places} if open_places else {}
    if found:
        more |= {"partitions": [*entries, *found]} | ({"doubts": doubts} if doubts else {})
    return {**layout, **more}


def _unfollowed(layout: Mapping[str, Any], why: str) -> Mapping[str, Any]:
    """Return the layout as it was, and that nothing is known of where its blocks lie."""
    places: dict[str, list[tuple[int, int]]] = {}
    for base in (one for one in layout["partitions"] if one.get("is_unordered")):
        region = (base["start_sector"], base["sectors"])
        places.setdefault(base["device"], []).append(region)
    doubt = f"{why}: roles of blocks in the cache are guessed from the requests there"
    return {**layout, "doubts": [*layout.get("doubts", ()), doubt], "open_places": places}


def number_of(device: Mapping[str, Any]) -> int:
    """Return the number of a device as the kernel's events have it."""
    return int(device["major"]) << 20 | int(device["minor"])


def _at_disks(
    layout: Mapping[str, Any], remaps: Remaps, names: Sequence[str]
) -> tuple[Remaps, NDArray[np.int64]]:
    """Return the remaps to the disks of what came from the highest devices, and its roles."""
    above = layout["above"]
    disks = np.array([number_of(disk) for disk in layout["devices"]], np.uint32)
    # The remap of a partition names itself as both.
    is_own = remaps["source"] == remaps["target"]
    remaps["target"][is_own] = remaps["device"][is_own]
    below = _Below(remaps)
    rows, codes = [remaps[:0]], [np.empty(0, np.int64)]
    for top in above["devices"]:
        entries = [one for one in above["partitions"] if one["device"] == top["device"]]
        now = remaps[remaps["source"] == number_of(top)]
        now_codes = _roles(now["source_sector"], entries, names)
        for _ in range(MOST_LEVELS):
            is_down = np.isin(now["target"], disks)
            rows.append(now[is_down])
            codes.append(now_codes[is_down])
            now, now_codes = now[~is_down], now_codes[~is_down]
            if not len(now):
                break
            now, at = below.next_of(now)
            now_codes = now_codes[at]
    return np.concatenate(rows), np.concatenate(codes)


def _roles(
    sectors: NDArray[np.uint64], entries: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> NDArray[np.int64]:
    """Return the role of each sector: of entries that overlap the smaller one counts."""
    found = np.full(len(sectors), names.index(UNKNOWN))
    for one in sorted(entries, key=lambda entry: -entry["sectors"]):
        first = one["start_sector"]
        is_inside = (sectors >= first) & (sectors < first + one["sectors"])
        found[is_inside] = names.index(one["role"])
    return found


class _Below:
    """The remaps of each device's places, which are sorted once."""

    def __init__(self, remaps: Remaps) -> None:
        self._remaps = remaps
        self._of: dict[int, _Sorted] = {}

    def next_of(self, now: Remaps) -> tuple[Remaps, NDArray[np.int64]]:
        """Return the first remap of each place since then, and which of `now` it is of."""
        rows, places = [self._remaps[:0]], [np.empty(0, np.int64)]
        for device in np.unique(now["target"]).tolist():
            if device not in self._of:
                self._of[device] = _Sorted(self._remaps[self._remaps["source"] == device])
            mine = np.flatnonzero(now["target"] == device)
            found, at = self._of[device].next_of(now[mine])
            rows.append(found)
            places.append(mine[at])
        return np.concatenate(rows), np.concatenate(places)


class _Sorted:
    """Remaps of one device's places, by place and time."""

    def __init__(self, remaps: Remaps) -> None:
        self._remaps = remaps[np.lexsort([remaps["time"], remaps["source_sector"]])]
        self._sectors, place = np.unique(self._remaps["source_sector"], return_inverse=True)
        self._times = np.unique(self._remaps["time"])
        self._keys = self._key(place, self._remaps["time"])

    def _key(self, place: NDArray[np.int64], times: NDArray[np.uint64]) -> NDArray[np.int64]:
        return place * (len(self._times) + 1) + np.searchsorted(self._times, times)

    def next_of(self, now: Remaps) -> tuple[Remaps, NDArray[np.int64]]:
        place = np.searchsorted(self._sectors, now["sector"])
        at = np.searchsorted(self._keys, self._key(place, now["time"]))
        kept = np.flatnonzero(at < len(self._keys))
        found = self._remaps[at[kept]]
        is_it = found["source_sector"] == now["sector"][kept]
        is_it &= found["time"] - now["time"][kept] <= MOST_NS
        return found[is_it], kept[is_it]


def _pages(rows: Remaps, codes: NDArray[np.int64]) -> tuple[Any, Any]:
    """Return each page that was gone to with each role that it had, once, in order."""
    first = rows["sector"].astype(np.int64) // PAGE_SECTORS
    sectors = rows["bytes"].astype(np.int64) // SECTOR_BYTES
    end = -(-(rows["sector"].astype(np.int64) + sectors) // PAGE_SECTORS)
    counts = end - first
    begins = np.repeat(np.cumsum(counts) - counts, counts)
    pages = np.repeat(first, counts) + np.arange(counts.sum()) - begins
    most = int(codes.max(initial=0)) + 1
    return np.divmod(np.unique(pages * most + np.repeat(codes, counts)), most)


def _inside(pages: NDArray[np.int64], base: Mapping[str, Any]) -> NDArray[np.bool_]:
    low, high = base["start_sector"], base["start_sector"] + base["sectors"]
    found: NDArray[np.bool_] = pages * PAGE_SECTORS >= low
    found &= (pages + 1) * PAGE_SECTORS <= high
    return found


def _runs(
    pages: NDArray[np.int64], codes: NDArray[np.int64]
) -> tuple[list[tuple[int, int, int]], int]:
    """Return first sector, end and role of pages in a row, and how many had several roles.

    Role 0 is of those of which it is not known. Of pages that nobody went to nothing is known.
    """
    pages, at, count = np.unique(pages, return_index=True, return_counts=True)
    codes = np.where(count > 1, 0, codes[at])
    breaks = np.flatnonzero((np.diff(codes) != 0) | (np.diff(pages) != 1)) + 1
    edges = [0, *breaks.tolist(), len(pages)]
    runs = [
        (int(pages[a]) * PAGE_SECTORS, int(pages[b - 1] + 1) * PAGE_SECTORS, int(codes[a]))
        for a, b in pairwise(edges)
        if a < b
    ]
    return runs, int(np.count_nonzero(count > 1))


def _entry(base: Mapping[str, Any], first: int, end: int, role: str) -> dict[str, Any]:
    kept = {key: value for key, value in base.items() if key != "is_unordered"}
    evidence = f"remaps of requests that were of {role} above"
    return kept | {
        "name": f"{base['name']} of {role}",
        "start_sector": first,
        "sectors": end - first,
        "role": role,
        "found_by": FOUND_BY_REMAPS,
        "evidence": evidence,
    }
