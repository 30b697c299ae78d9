"""One layout for several captures that are read as one, as the pieces of a capture are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import UnsetType

from tracekit.layout import DiskCounters, Layout, Losses

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
        loss=_losses(layouts),
        kernel=next((one.kernel for one in layouts if one.kernel), None),
        counters=_counters(layouts, are_pieces=are_pieces),
        doubts=list(dict.fromkeys(doubt for one in layouts for doubt in one.doubts)),
    )
    for one in layouts:
        known = {device.device for device in found.devices}
        found.devices += [device for device in one.devices if device.device not in known]
        found.partitions += [part for part in one.partitions if part.device not in known]
        found.processes = one.processes | found.processes
        found.cgroups = one.cgroups | found.cgroups
    return found


def _number(layout: Layout) -> int:
    return layout.capture.piece if isinstance(layout.capture.piece, int) else 0


def _are_pieces(layouts: Sequence[Layout]) -> bool:
    """Whether they are pieces of one recording and none is missing between them."""
    numbers = sorted(map(_number, layouts))
    is_row = numbers[0] > 0 and numbers == list(range(numbers[0], numbers[-1] + 1))
    return is_row and len({one.capture.own_pid for one in layouts}) == 1


def _losses(layouts: Sequence[Layout]) -> Losses:
    return Losses(
        sum(one.loss.overrun for one in layouts),
        sum(one.loss.dropped for one in layouts),
        _whole_ns(layouts),
    )


def _whole_ns(layouts: Sequence[Layout]) -> int | UnsetType:
    """Return how long all records found space in all captures, where that is known."""
    began_ns = [_began_ns(one) for one in layouts]
    ends_ns = [
        at_ns - began_ns[0] + one.loss.whole_ns
        for one, at_ns in zip(layouts, began_ns, strict=True)
        if isinstance(one.loss.whole_ns, int) and at_ns is not None and began_ns[0] is not None
    ]
    return min(ends_ns) if ends_ns else layouts[0].loss.whole_ns


def _began_ns(layout: Layout) -> int | None:
    return min((one.begin.before_ns for one in layout.counters if one.begin), default=None)


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
