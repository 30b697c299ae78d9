"""Which kinds of a stream's requests go round and round in a part of the region, as a log does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.fit.requests import Integers

LEAST = 64  # requests; fewer may go on by chance
FEW, FEW_SHARE = 2, 0.001  # requests that may begin elsewhere
HEADER = 0.01  # of the ring, before it
GOES_ON = 0.9  # of the requests of a kind, where the stream's last one ended


@dataclass(frozen=True)
class Ring:
    """Kinds that go round together, and the part of the region where they do."""

    kinds: tuple[int, ...]
    first_sector: int
    sectors: int


def find_ring(
    codes: Integers, start: Integers, *, sectors: Integers, region_sectors: int
) -> Ring | None:
    """Return the ring of requests in their order, None if there is none.

    Its requests go on one behind the other, whatever other kinds do between them, and begin again
    at its lowest place when the next would pass the highest one; a few may begin elsewhere. A ring
    that never went round may go on to the end of the region.
    """
    if not len(codes):
        return None
    end = start + sectors
    goes_on = np.zeros(len(codes), bool)
    goes_on[1:] = start[1:] == end[:-1]
    kinds = [kind for kind in np.unique(codes).tolist() if goes_on[codes == kind].mean() >= GOES_ON]
    mine = np.isin(codes, kinds)
    start, end, sectors = start[mine], end[mine], sectors[mine]
    if len(start) < LEAST:
        return None
    breaks = np.flatnonzero(start[1:] != end[:-1]) + 1
    if not len(breaks):
        return Ring(tuple(kinds), int(start[0]), region_sectors - int(start[0]))
    high = int(end.max())
    is_full = end[breaks - 1] + sectors[breaks] > high
    if not is_full.any():
        return None
    places, counts = np.unique(start[breaks][is_full], return_counts=True)
    low = int(places[np.argmax(counts)])
    odd = len(breaks) - int(counts.max())
    # What lies before the ring is a header at most.
    is_ring = low - int(start.min()) <= (high - low) * HEADER
    if not is_ring or odd > max(FEW, len(start) * FEW_SHARE):
        return None
    return Ring(tuple(kinds), low, high - low)
