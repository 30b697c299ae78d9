"""The kinds of requests of one stream: shares, sizes, going on, and places used again or anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.fit.requests import NAMES, OPERATIONS, SECTOR_BYTES, Integers, Rows

MOST_KINDS = 9  # of data, beside flushes; the native counts have ten rows
MOST_SIZES = 32
MOST_SHARES = 16
EXTENTS = 2048
SMALLEST_EXTENT = 64 << 10
FLUSH = 2
CONTINUED = 9  # the row of requests that went on
SURE = 0.95  # of the places are multiples of the alignment
PAGE_BYTES = 4096

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class KindFit:
    """The keys of one [[request]], in the order of the file."""

    keys: dict[str, Any]


def fit_kinds(rows: Rows, mine: Flags, *, region: tuple[int, int]) -> list[KindFit]:
    """Return the kinds of a stream's requests: of the rows of its region those that are `mine`.

    The region is its first sector and its sectors.
    """
    own = rows[mine]
    codes = _merged(own["operation"].astype(np.int64) * 32 + own["flags"])
    places = _Places(rows, mine, codes=codes, region=region)
    found = []
    kinds, counts = np.unique(codes, return_counts=True)
    for code, count in zip(kinds.tolist(), counts.tolist(), strict=True):
        flags = [name for bit, name in enumerate(NAMES) if code & (1 << bit)]
        keys: dict[str, Any] = {"share": count / len(own), "operation": OPERATIONS[code // 32]}
        if flags:
            keys["flags"] = flags
        if code // 32 != FLUSH:
            keys |= {"access": "following", **places.of(code)}
        found.append(KindFit(keys))
    return found


def _merged(codes: Integers) -> Integers:
    """Return codes of which the rarest are those of the most common one of their operation."""
    kinds, counts = np.unique(codes, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    kept: list[int] = []
    replaced = codes.copy()
    data_kinds = 0
    for at in order.tolist():
        code = int(kinds[at])
        is_flush = code // 32 == FLUSH
        same = [one for one in kept if one // 32 == code // 32]
        # Every operation keeps its most common kind.
        if same and data_kinds >= MOST_KINDS - 2 and not is_flush:
            replaced[codes == code] = same[0]
            continue
        kept.append(code)
        data_kinds += not is_flush
    return replaced


class _Places:
    """Where the requests of a stream begin: as going on, again where one began, or anew."""

    def __init__(
        self, rows: Rows, mine: Flags, *, codes: Integers, region: tuple[int, int]
    ) -> None:
        self.region_bytes = region[1] * SECTOR_BYTES
        is_data = rows["operation"] != FLUSH
        self.codes = codes[is_data[mine]]
        self.kinds = np.unique(self.codes)
        every = rows["sector"][is_data] - region[0]
        is_own = mine[is_data]
        self.start = every[is_own]
        self.sectors = rows["sectors"][is_data][is_own].astype(np.int64)
        end = self.start + self.sectors
        self.went_on = np.zeros(len(end), bool)
        self.went_on[1:] = self.start[1:] == end[:-1]
        # What would pass the end of the region and is at its start went on, too, but begins a run.
        self.wrapped = np.zeros(len(end), bool)
        self.wrapped[1:] = (self.start[1:] == 0) & (end[:-1] + self.sectors[1:] > region[1])
        self.own = np.zeros(len(end), bool)
        for kind in self.kinds.tolist():
            of_kind = np.flatnonzero(self.codes == kind)
            self.own[of_kind[1:]] = self.start[of_kind[1:]] == end[of_kind[:-1]]
        self.own &= ~self.went_on & ~self.wrapped
        # A run begins where a request does not go on; it resumes where the last but one ended.
        begin = np.flatnonzero(~self.went_on)
        self.resumed = np.zeros(len(end), bool)
        self.resumed[begin[2:]] = self.start[begin[2:]] == end[begin[1:-1] - 1]
        self.resumed &= ~self.own & ~self.wrapped
        self.jumped = ~self.went_on & ~self.resumed & ~self.own & ~self.wrapped
        self._find_distances(every, is_own)

    def _find_distances(self, every: Integers, is_own: Flags) -> None:
        """Find the jumps by kind and how far back their place was used, and which are anew.

        Row k of `hits` has, for each distance of `grid`, the jumps of kind k that went back at most
        so many places, by their last use; all starts of the region count as uses.
        """
        from tracekit.native.curves import Curve
        from tracekit.native.handle import RUN

        places, first, rank = np.unique(every, return_index=True, return_inverse=True)
        is_first = np.zeros(len(every), bool)
        is_first[first] = True
        self.is_fresh = is_first[is_own]
        row = np.full(len(every), CONTINUED)
        row[is_own] = np.where(self.jumped, np.searchsorted(self.kinds, self.codes), CONTINUED)
        runs = np.zeros(len(rank), np.dtype(RUN))
        runs["first"], runs["count"] = rank, 1
        runs["role"], runs["is_write"] = row // 2, row % 2
        steps = np.unique((2 ** (np.arange(0, 8 * 26) / 8)).astype(np.uint64))
        most = max(len(places), 1)
        self.grid = np.append(steps[steps < most], np.uint64(most))
        with Curve(max(len(places), 1), self.grid) as curve:
            curve.add(runs)
            counts = curve.read()
        self.hits = np.cumsum(counts[:, : len(self.grid)], axis=1, dtype=np.float64)

    def of(self, code: int) -> dict[str, Any]:
        """Return the keys of one kind."""
        mine = self.codes == code
        jumps = mine & self.jumped
        starts = self.start[jumps] if jumps.any() else self.start[mine]
        align_sectors = _alignment(starts)
        keys: dict[str, Any] = {
            "size": _sizes(self.sectors[mine] * SECTOR_BYTES),
            "align": f"{align_sectors * SECTOR_BYTES}",
            "goes_on": self._goes_on(mine),
        }
        left = int((mine & ~self.went_on & ~self.wrapped).sum())
        resumes = []
        for flags in (self.own, self.resumed):
            count = int((mine & flags).sum())
            resumes.append(round(count / left, 5) if left else 0.0)
            left -= count
        if any(resumes):
            keys["resumes"] = resumes
        fresh = self.start[jumps & self.is_fresh]
        locality = _locality(fresh, self.region_bytes)
        keys |= {} if locality is None else {"locality": locality}
        again = self._again(int(np.searchsorted(self.kinds, code)), int(jumps.sum()))
        return keys if again is None else {**keys, "reuse": again}

    def _goes_on(self, mine: Flags) -> list[float]:
        before = np.concatenate([[False], self.went_on[:-1]])
        ratios = []
        for went_on in (False, True):
            asked = mine & (before == went_on)
            goes = (self.went_on | self.wrapped)[asked]
            ratios.append(round(float(goes.mean()), 5) if asked.any() else 0.0)
        return ratios

    def _again(self, row: int, jumps: int) -> dict[str, Any] | None:
        """Return the share of the jumps to a used place and the quantiles of how far back it is."""
        hits = self.hits[row]
        if not jumps or not hits[-1]:
            return None
        is_step = np.diff(hits, prepend=0) > 0
        # A distance d is drawn as any number from d to below d + 1.
        values = [1.0, *(self.grid[is_step] + 1).astype(float).tolist()]
        shares = [0.0, *(hits[is_step] / hits[-1]).tolist()]
        lower = np.flatnonzero(is_step)[0]
        if lower:
            values[0] = float(self.grid[lower - 1] + 1)
        shares[-1] = 1.0
        distance = {"shares": [round(share, 6) for share in shares], "values": values}
        return {"share": round(float(hits[-1] / jumps), 6), "distance": distance}


def _alignment(starts: Integers) -> int:
    """Return the largest power of two of sectors, up to 64 KiB, that divides nearly all."""
    for sectors in (128, 64, 32, 16, 8, 4, 2):
        if (starts % sectors == 0).mean() >= SURE:
            return sectors
    return 1


def _sizes(sizes: Integers) -> Any:
    values, counts = np.unique(sizes, return_counts=True)
    if len(values) == 1:
        return f"{values[0]}"
    if len(values) > MOST_SIZES:
        # Of each part of equal weight, its mean size in whole sectors.
        part = np.minimum(np.cumsum(counts) * MOST_SIZES // (counts.sum() + 1), MOST_SIZES - 1)
        weights = np.bincount(part, counts)
        totals = np.bincount(part, counts * values)
        is_there = weights > 0
        means = totals[is_there] / weights[is_there]
        values = np.round(means / SECTOR_BYTES).astype(np.int64) * SECTOR_BYTES
        counts = weights[is_there].astype(np.int64)
    return {"values": [f"{value}" for value in values], "weights": counts.tolist()}


def _locality(fresh: Integers, region_bytes: int) -> dict[str, Any] | None:
    """Return how new places are shared among extents of the region, None where they are even."""
    extent = SMALLEST_EXTENT
    while extent * EXTENTS < region_bytes:
        extent *= 2
    extents = region_bytes // extent
    if len(fresh) < 2 or extents < 2:
        return None
    number = np.minimum(fresh * SECTOR_BYTES // extent, extents - 1)
    counts = np.sort(np.bincount(number, minlength=extents))[::-1]
    used = int((counts > 0).sum())
    edges = np.unique(np.geomspace(1, used, MOST_SHARES).round().astype(np.int64))
    to = np.concatenate([[0], np.cumsum(counts)])[edges]
    blocks = [*np.diff(edges, prepend=0).tolist(), extents - used]
    requests = [*np.diff(to, prepend=0).tolist(), 0]
    if not blocks[-1]:
        blocks, requests = blocks[:-1], requests[:-1]
    return {"kind": "shares", "block": f"{extent}", "blocks": blocks, "requests": requests}
