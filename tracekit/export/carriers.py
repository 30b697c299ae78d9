"""How far requests reach with what was merged into them: the lengths of their D and C events."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tracekit.columns import ints, read_batches
from tracekit.schema import SECTOR_BYTES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NONE = -1
DEEPEST = 64
"""Merges of merges of merges: no kernel's queue is that long."""


Numbers: TypeAlias = "NDArray[np.int64]"


@dataclass
class Carriers:
    """The requests that others were merged into, by ascending request_id."""

    request_id: Numbers
    own_begin: Numbers
    begin: Numbers
    """First sector of the request and all that it carries."""
    end: Numbers
    inserted_begin: Numbers
    """The same of what it carried when it was inserted."""
    inserted_end: Numbers
    insert_ns: Numbers
    transfer_ns: Numbers
    apart: int = field(default=0, init=False)
    """Merged requests that completed at another time than their carrier: in parts."""

    def find(self, request_id: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
        """Return the place here of each request, and whether it is here at all."""
        import numpy as np

        place = np.searchsorted(self.request_id, request_id)
        place = np.minimum(place, max(len(self.request_id) - 1, 0))
        is_here = np.zeros(len(request_id), np.bool_)
        if len(self.request_id):
            is_here = self.request_id[place] == request_id
        return place, is_here

    def extents(
        self, request_id: Numbers, own: tuple[Numbers, Numbers], *, inserted: bool = False
    ) -> tuple[Numbers, Numbers]:
        """Return first sector and end of each request with what it carries, or carried then.

        `own` has those of the requests themselves.
        """
        import numpy as np

        place, is_here = self.find(request_id)
        if not is_here.any():
            return own
        first = self.inserted_begin if inserted else self.begin
        last = self.inserted_end if inserted else self.end
        return np.where(is_here, first[place], own[0]), np.where(is_here, last[place], own[1])


def find_carriers(table: Path) -> Carriers:
    """Read the table twice: about 100 bytes of memory for each merged request."""
    import numpy as np

    merged = _merged(table)
    ids = np.unique(merged["carrier"])
    arrays = {one.name: np.zeros_like(ids) for one in fields(Carriers) if one.init}
    carriers = Carriers(**{**arrays, "request_id": ids})
    names = ("request_id", "sector", "length_bytes", "insert_ns", "transfer_ns")
    for batch in read_batches(table, names):
        request_id, begin = ints(batch.column("request_id")), ints(batch.column("sector"))
        place, is_here = carriers.find(request_id)
        where = place[is_here]
        carriers.begin[where] = carriers.own_begin[where] = begin[is_here]
        carriers.end[where] = (begin + sectors_of(batch))[is_here]
        carriers.insert_ns[where] = ints(batch.column("insert_ns"), if_null=NONE)[is_here]
        carriers.transfer_ns[where] = ints(batch.column("transfer_ns"), if_null=NONE)[is_here]
    carriers.inserted_begin = carriers.begin.copy()
    carriers.inserted_end = carriers.end.copy()
    _grow(carriers, merged)
    return carriers


def sectors_of(batch: Any) -> Numbers:
    """Return the lengths in whole sectors, rounded up."""
    return (ints(batch.column("length_bytes")) + SECTOR_BYTES - 1) // SECTOR_BYTES


def _merged(table: Path) -> dict[str, Numbers]:
    import numpy as np

    names = ("request_id", "sector", "length_bytes", "merged_into", "merge_ns", "transfer_ns")
    parts: dict[str, list[Numbers]] = {
        name: [] for name in ("id", "begin", "end", "carrier", "merge_ns", "transfer_ns")
    }
    for batch in read_batches(table, names):
        carrier = ints(batch.column("merged_into"), if_null=NONE)
        is_merged = carrier != NONE
        begin = ints(batch.column("sector"))
        found = [ints(batch.column("request_id")), begin, begin + sectors_of(batch), carrier]
        found += [ints(batch.column(name), if_null=NONE) for name in names[-2:]]
        for name, values in zip(parts, found, strict=True):
            parts[name].append(values[is_merged])
    return {
        name: np.concatenate([np.empty(0, np.int64), *values]) for name, values in parts.items()
    }


def _grow(carriers: Carriers, merged: dict[str, Numbers]) -> None:
    """Add what was merged, and what had been merged into that before, until nothing changes."""
    import numpy as np

    place, is_here = carriers.find(merged["carrier"])
    place = place[is_here]
    begin, end = merged["begin"], merged["end"]
    for _ in range(DEEPEST):
        begin, end = carriers.extents(merged["id"], (merged["begin"], merged["end"]))
        before = carriers.begin.copy(), carriers.end.copy()
        np.minimum.at(carriers.begin, place, begin[is_here])
        np.maximum.at(carriers.end, place, end[is_here])
        if (before[0] == carriers.begin).all() and (before[1] == carriers.end).all():
            break
    is_before = merged["merge_ns"][is_here] <= carriers.insert_ns[place]
    early = place[is_before]
    np.minimum.at(carriers.inserted_begin, early, begin[is_here][is_before])
    np.maximum.at(carriers.inserted_end, early, end[is_here][is_before])
    carriers.apart = int((merged["transfer_ns"][is_here] != carriers.transfer_ns[place]).sum())
