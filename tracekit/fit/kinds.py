"""The kinds of requests of one stream: shares, sizes, and where they go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tracekit.fit.places import MODES, Places, Region
from tracekit.fit.requests import NAMES, OPERATIONS, Flags, Integers

MOST_KINDS = 9  # of data, beside flushes
FLUSH = 2


@dataclass(frozen=True)
class KindFit:
    """The keys of one [[request]], in the order of the file."""

    keys: dict[str, Any]


def fit_kinds(region: Region, mine: Flags) -> list[KindFit]:
    """Return the kinds of a stream's requests: of the rows of its region those that are `mine`."""
    count = int(mine.sum())
    codes = _merged(
        region.rows["operation"][mine].astype(np.int64) * 32 + region.rows["flags"][mine]
    )
    places = Places(region, mine, codes)
    kinds, number, counts = np.unique(places.kinds, return_inverse=True, return_counts=True)
    behind = np.zeros((len(kinds), len(kinds)), np.int64)
    np.add.at(behind, (number[:-1], number[1:]), 1)
    found = []
    for at, kind in enumerate(kinds.tolist()):
        code = kind // MODES
        flags = [name for bit, name in enumerate(NAMES) if code & (1 << bit)]
        keys: dict[str, Any] = {
            "share": int(counts[at]) / count,
            "operation": OPERATIONS[code // 32],
        }
        if flags:
            keys["flags"] = flags
        if code // 32 != FLUSH:
            keys |= places.of(kind)
        if len(kinds) > 1:
            # What is last has nothing behind it: as likely as ever.
            keys["then"] = (behind[at] if behind[at].any() else counts).tolist()
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
