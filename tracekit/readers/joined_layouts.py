"""One layout for several captures that are read as one, as the pieces of a capture are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import UnsetType
from msgspec.structs import replace
from numpy.typing import NDArray

from tracekit.layout import FOUND_BY_REMAPS, DiskCounters, Layout, Losses
from tracekit.metadata import Region

WHY_LACKING = "one of the captures that are read as one has no counters of it"
WHY_APART = "the captures that are read as one are not all pieces of one recording, in a row"
WHY_BACK = "its counters went back between two pieces"


def joined(layouts: Sequence[Layout]) -> Layout:
    """Return what is known of all captures; of what several have the first one's counts.

    The kernel's counters go on between pieces of one recording: its first and last reading count.
    """
    if len(layouts) == 1:
        return layouts[0]
    are_pieces = _are_pieces(layouts)
    if are_pieces:
        layouts = sorted(layouts, key=_number)
    found = Layout(
        loss=Losses(
            sum(one.loss.overrun for one in layouts),
            sum(one.loss.dropped for one in layouts),
            _whole_ns(layouts),
        ),
        kernel=next((one.kernel for one in layouts if one.kernel), None),
        counters=_counters(layouts, are_pieces=are_pieces),
        doubts=list(dict.fromkeys(doubt for one in layouts for doubt in one.doubts)),
    )
    for one in layouts:
        known = {device.device for device in found.devices}
        found.devices += [device for device in one.devices if device.device not in known]
        found.partitions += [
            part for part in one.partitions if part.device not in known and not _is_of_remaps(part)
        ]
        found.processes = one.processes | found.processes
        found.cgroups = one.cgroups | found.cgroups
    _add_remaps(found, layouts, are_pieces=are_pieces)
    return found


def _is_of_remaps(part: Region) -> bool:
    return part.found_by == FOUND_BY_REMAPS


def _add_remaps(found: Layout, layouts: Sequence[Layout], *, are_pieces: bool) -> None:
    """Add the roles by remaps that no piece of the recording says else of.

    Between captures that are not in a row blocks may have come to other places unseen.
    """
    for name in [device.device for device in found.devices]:
        its = [one for one in layouts if any(device.device == name for device in one.devices)]
        parts = [part for one in its for part in one.partitions if part.device == name]
        parts = [part for part in parts if _is_of_remaps(part)]
        if len(its) > 1 and not are_pieces:
            if parts:
                found.doubts.append(f"roles of {name} that remaps told are left out: {WHY_APART}")
            continue
        places = [place for one in its for place in one.open_places.get(name, ())]
        kept, left_out_sectors = _undisputed(parts, places)
        found.partitions += kept
        if left_out_sectors:
            found.doubts.append(
                f"roles of {left_out_sectors:,} sectors of {name} are guessed from the requests"
                " there: the pieces of the recording differ about them"
            )


def _undisputed(
    parts: Sequence[Region], open_places: Sequence[tuple[int, int]]
) -> tuple[list[Region], int]:
    """Return where only one role is said by any, and the sectors of where another one is, too."""
    alike: dict[str | None, list[Region]] = {}
    for part in parts:
        alike.setdefault(part.role, []).append(part)
    said = [[(one.start_sector, one.sectors) for one in some] for some in alike.values()]
    said.append(list(open_places))
    ends = [(first, first + sectors) for places in said for first, sectors in places]
    edges = np.unique(np.array(ends, np.int64))
    covered = np.array([_is_covered(places, edges) for places in said])
    is_disputed = covered.sum(axis=0) > 1
    kept = []
    for some, is_said in zip(alike.values(), covered[:-1] & ~is_disputed, strict=True):
        turns = edges[np.flatnonzero(np.diff(is_said, prepend=False))]
        for first, end in turns.reshape(-1, 2).tolist():
            kept.append(replace(some[0], start_sector=first, sectors=end - first))
    is_left_out = covered[:-1].any(axis=0) & is_disputed
    return kept, int(np.diff(edges, append=edges[-1:])[is_left_out].sum())


def _is_covered(places: Sequence[tuple[int, int]], edges: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether any place covers what is from each edge to the next."""
    firsts, sectors = np.array(places, np.int64).reshape(-1, 2).T
    depth = np.zeros(len(edges), np.int64)
    np.add.at(depth, np.searchsorted(edges, firsts), 1)
    np.add.at(depth, np.searchsorted(edges, firsts + sectors), -1)
    return np.cumsum(depth) > 0


def _number(layout: Layout) -> int:
    return layout.capture.piece if isinstance(layout.capture.piece, int) else 0


def _are_pieces(layouts: Sequence[Layout]) -> bool:
    """Whether they are pieces of one recording and none is missing between them."""
    numbers = sorted(map(_number, layouts))
    is_row = numbers[0] > 0 and numbers == list(range(numbers[0], numbers[-1] + 1))
    return is_row and len({one.capture.own_pid for one in layouts}) == 1


def _whole_ns(layouts: Sequence[Layout]) -> int | UnsetType:
    """Return how long all records found space in all captures, where that is known."""
    began_ns = [
        min((one.begin.before_ns for one in layout.counters if one.begin), default=None)
        for layout in layouts
    ]
    ends_ns = [
        at_ns - began_ns[0] + one.loss.whole_ns
        for one, at_ns in zip(layouts, began_ns, strict=True)
        if isinstance(one.loss.whole_ns, int) and at_ns is not None and began_ns[0] is not None
    ]
    return min(ends_ns) if ends_ns else layouts[0].loss.whole_ns


def _counters(layouts: Sequence[Layout], *, are_pieces: bool) -> list[DiskCounters]:
    """Return the first and the last reading of each disk, or why these say nothing."""
    names = dict.fromkeys(entry.device for one in layouts for entry in one.counters)
    found = []
    for name in names:
        entries = [entry for one in layouts for entry in one.counters if entry.device == name]
        why_not = next((entry.why_not for entry in entries if entry.why_not), None)
        if len(entries) != len(layouts):
            why_not = why_not or WHY_LACKING
        elif not are_pieces:
            why_not = why_not or WHY_APART
        elif _went_back(entries):
            why_not = why_not or WHY_BACK
        if why_not is not None:
            found.append(DiskCounters(device=name, why_not=why_not))
        else:
            found.append(DiskCounters(device=name, begin=entries[0].begin, end=entries[-1].end))
    return found


def _went_back(entries: Sequence[DiskCounters]) -> bool:
    """Whether a reading is below one of a piece before, as of another boot or disk."""
    ends = [(one.begin, one.end) for one in entries]
    readings = [reading for pair in ends for reading in pair if reading]
    return any(
        before.after_ns > after.before_ns or after.completed.get(kind, count) < count
        for before, after in pairwise(readings)
        for kind, count in before.completed.items()
    )
