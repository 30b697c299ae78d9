"""Finds the region of a layout that holds a sector, for whole columns of sectors at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracekit.schema import ROLES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# What can decide a request's role.
LAYOUT, OPTION, INFERRED, OUTSIDE, FLUSH, UNDECIDED = range(6)
EVIDENCE_NAMES = ("layout", "option", "inferred", "outside", "empty_flush", "undecided")


@dataclass(frozen=True)
class Region:
    """A place on a device and the role of what happens there."""

    role: str
    evidence: int  # LAYOUT ... UNDECIDED
    entry: int | None  # index in the layout, None outside of it


class DeviceMap:
    """The regions of one device; the smallest that holds a sector decides."""

    def __init__(self, entries: list[tuple[int, dict[str, Any]]]) -> None:
        """Take the device's layout entries with their indices in the layout."""
        import numpy as np

        # Larger regions first, options last, so that what comes later paints over it.
        order = sorted(
            entries, key=lambda item: (_is_option(item[1]), -item[1]["sectors"], item[0])
        )
        edges = {0}
        for _, entry in order:
            edges |= {entry["start_sector"], entry["start_sector"] + entry["sectors"]}
        self._edges = np.array(sorted(edges), np.int64)
        self._entry = np.full(len(self._edges), -1, np.int64)
        for index, entry in order:
            first, end = np.searchsorted(
                self._edges, [entry["start_sector"], entry["start_sector"] + entry["sectors"]]
            )
            self._entry[first:end] = index

    def entry_at(self, sectors: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of each sector's layout entry, -1 outside of all."""
        import numpy as np

        place = np.searchsorted(self._edges, sectors, side="right") - 1
        return np.asarray(np.where(place < 0, -1, self._entry[place]), np.int64)


def _is_option(entry: dict[str, Any]) -> bool:
    return str(entry["evidence"]).startswith("option:")


def entry_region(index: int, entry: dict[str, Any]) -> Region:
    """Return the region of a layout entry; one without a role is undecided."""
    role = entry["role"]
    evidence = str(entry["evidence"])
    if role is None:
        return Region("unknown", UNDECIDED, index)
    if _is_option(entry):
        return Region(role, OPTION, index)
    if evidence.startswith("inferred:"):
        return Region(role, INFERRED, index)
    return Region(role, LAYOUT if role in ROLES[:-1] else UNDECIDED, index)


def flush_role(roles: set[str]) -> str:
    """Return the role of a device's empty flushes, which have no address.

    Linux gives them no partition either. Its file systems send them from fsync and, as jbd2 does
    before a commit, to the device of the file system; swap never flushes. So they belong to the
    file system where the device has one, else to the only role that is left.
    """
    candidates = roles - {"swap", "unknown"}
    for role in ("fs", "journal"):
        if role in candidates:
            return role
    return candidates.pop() if len(candidates) == 1 else "unknown"
