"""Where the requests of a stream begin: going on, round and round, on pages used again, or anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tracekit.fit.requests import SECTOR_BYTES, Flags, Integers, Rows
from tracekit.fit.rings import Ring, find_ring

MOST_SIZES = 32
PARTS = 8  # of the sizes beyond the most common ones
MOST_SHARES = 16
EXTENTS = 2048
SMALLEST_EXTENT = 64 << 10
FLUSH = 2
SURE = 0.95  # of the places are multiples of the alignment
PAGE_SECTORS = 8
STEPS = np.unique((2 ** (np.arange(0, 8 * 26) / 8)).astype(np.int64))
# How a request begins: 1 more if on used pages. Those that begin elsewhere are kinds of their own
# where the run goes on, with new pages or with used ones, and on used pages where they take
# several: places differ by what is done there.
ON, RESUMED, ELSEWHERE, GOES_ON, CIRCLE, FLUSHES, SEVERAL = 0, 2, 4, 6, 10, 11, 8
MODES = 32
BEGINS = ("on", "resumed", "elsewhere")
PAGES = ("new", "used")
RARE, RARE_SHARE = 8, 0.002  # requests of a kind, and of the stream's


@dataclass(frozen=True)
class Region:
    """All requests on a device's part of one role, and what each found used.

    `back` says how many pages back by their last use its first page was used, 0: never.
    """

    rows: Rows
    first_sector: int
    sectors: int
    back: Integers


def look_at(rows: Rows, *, first_sector: int, sectors: int) -> Region:
    """Return the region of rows in queue order, which lie in the sectors."""
    from tracekit.native.territory import RUN, Territory

    is_data = rows["operation"] != FLUSH
    runs = np.zeros(int(is_data.sum()), np.dtype(RUN))
    runs["first_sector"] = rows["sector"][is_data] - first_sector
    runs["sectors"] = rows["sectors"][is_data]
    back = np.zeros(len(rows), np.int64)
    with Territory(sectors) as territory:
        back[is_data] = territory.see(runs)
    return Region(rows, first_sector, sectors, back)


class Places:
    """Where the requests of a stream begin, and the kinds that this makes of them."""

    def __init__(self, region: Region, mine: Flags, codes: Integers) -> None:
        """Look at the rows of the region that are `mine`, with the codes of what they do."""
        self.region_bytes = region.sectors * SECTOR_BYTES
        is_data = region.rows["operation"][mine] != FLUSH
        self.start = np.where(is_data, region.rows["sector"][mine] - region.first_sector, 0)
        self.sectors = region.rows["sectors"][mine].astype(np.int64)
        self.back = region.back[mine]
        self.ring = find_ring(
            codes[is_data],
            self.start[is_data],
            sectors=self.sectors[is_data],
            region_sectors=region.sectors,
        )
        modes = self._modes(is_data, codes, region.sectors)
        self.kinds = kept_kinds(codes * MODES + modes)

    def _modes(self, is_data: Flags, codes: Integers, region_sectors: int) -> Integers:
        """Return how each request begins, with 1 more on pages that were used."""
        modes = np.full(len(codes), FLUSHES, np.int64)
        follows = is_data
        if self.ring is not None:
            goes_round = is_data & np.isin(codes, self.ring.kinds)
            modes[goes_round] = CIRCLE
            follows = is_data & ~goes_round
        start, sectors = self.start[follows], self.sectors[follows]
        end = start + sectors
        went_on, resumed = np.zeros(len(end), bool), np.zeros(len(end), bool)
        went_on[1:] = start[1:] == end[:-1]
        # What would pass the end of the region and is at its start went on, too.
        went_on[1:] |= (start[1:] == 0) & (end[:-1] + sectors[1:] > region_sectors)
        # A run begins where a request does not go on; it resumes where the last but one ended.
        begin = np.flatnonzero(~went_on)
        resumed[begin[2:]] = start[begin[2:]] == end[begin[1:-1] - 1]
        is_used = self.back[follows] > 0
        how = np.where(went_on, ON, np.where(resumed, RESUMED, ELSEWHERE))
        ahead = np.flatnonzero((how[:-1] == ELSEWHERE) & went_on[1:])
        how[ahead] = GOES_ON + 2 * is_used[ahead + 1]
        pages = (end - 1) // PAGE_SECTORS - start // PAGE_SECTORS
        how[is_used & (how >= ELSEWHERE) & (pages > 0)] += SEVERAL
        modes[follows] = how + is_used
        return modes

    def of(self, kind: int) -> dict[str, Any]:
        """Return the keys of one kind of data."""
        mine = self.kinds == kind
        mode = kind % MODES
        size = _sizes(self.sectors[mine] * SECTOR_BYTES)
        if mode == CIRCLE and self.ring is not None:
            return {"access": "circular", "size": size, "circle": _circle(self.ring)}
        keys: dict[str, Any] = {
            "access": "following",
            "begins": BEGINS[min(mode, ELSEWHERE) // 2],
            "pages": PAGES[mode % 2],
            "size": size,
            "align": f"{_alignment(self.start[mine]) * SECTOR_BYTES}",
        }
        if mode % 2:
            return {**keys, "distance": _distance(self.back[mine])}
        locality = _locality(self.start[mine], self.region_bytes)
        return keys if locality is None else {**keys, "locality": locality}


def kept_kinds(kinds: Integers) -> Integers:
    """Return kinds of which rare ones begin elsewhere, on such pages."""
    found, counts = np.unique(kinds, return_counts=True)
    kept = kinds.copy()
    for kind, count in zip(found.tolist(), counts.tolist(), strict=True):
        mode = kind % MODES
        if mode not in (CIRCLE, FLUSHES) and count < max(RARE, RARE_SHARE * len(kinds)):
            kept[kinds == kind] = kind - mode + ELSEWHERE + mode % 2
    return kept


def _distance(back: Integers) -> dict[str, Any]:
    """Return in quantiles how many pages back those were used that are used again."""
    back = np.sort(back[back > 0]) if (back > 0).any() else np.ones(1, np.int64)
    steps = STEPS[: int(np.searchsorted(STEPS, back[-1])) + 1]
    hits = np.searchsorted(back, steps, "right")
    is_step = np.diff(hits, prepend=0) > 0
    # A distance d is drawn as any number from d to below d + 1.
    values = [1.0, *(steps[is_step] + 1).astype(float).tolist()]
    shares = [0.0, *(hits[is_step] / len(back)).tolist()]
    lower = int(np.flatnonzero(is_step)[0])
    if lower:
        values[0] = float(steps[lower - 1] + 1)
    return {"shares": [round(share, 6) for share in shares], "values": values}


def _circle(ring: Ring) -> dict[str, str]:
    return {
        "start": f"{ring.first_sector * SECTOR_BYTES}",
        "size": f"{ring.sectors * SECTOR_BYTES}",
    }


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
        values, counts = _fewer(values, counts)
    return {"values": [f"{value}" for value in values], "weights": counts.tolist()}


def _fewer(values: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Return the most common sizes, and of the others in parts of equal weight the means."""
    order = np.argsort(-counts, kind="stable")
    common, rest = np.sort(order[: MOST_SIZES - PARTS]), np.sort(order[MOST_SIZES - PARTS :])
    weight = counts[rest]
    part = np.minimum(np.cumsum(weight) * PARTS // (weight.sum() + 1), PARTS - 1)
    weights = np.bincount(part, weight)
    totals = np.bincount(part, weight * values[rest])
    is_there = weights > 0
    means = totals[is_there] / weights[is_there]
    sizes = np.round(means / SECTOR_BYTES).astype(np.int64) * SECTOR_BYTES
    return (
        np.concatenate([values[common], sizes]),
        np.concatenate([counts[common], weights[is_there].astype(np.int64)]),
    )


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
