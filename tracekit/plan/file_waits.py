"""Which file operation of another thread each one must wait for, so that a replay cannot fail.

What was done in one order on one file is done in that order again: an operation waits for what
last made, removed, renamed or opened what it uses, and such a change waits for all that used it
before. Operations that overlapped in time wait for nothing.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Uses:
    """Rows that use a thing (a handle, a name), in order of the rows; one row may use several."""

    row: Integers
    thing: Integers
    is_change: Flags

    def sorted(self) -> Uses:
        """Return the uses thing by thing, each in order of the rows."""
        order = np.lexsort((self.row, self.thing))
        return Uses(self.row[order], self.thing[order], self.is_change[order])


def waits(
    uses: Uses, lane: Integers, *, start_ns: Integers, end_ns: Integers
) -> tuple[Integers, Integers]:
    """Return pairs of rows: the first must wait for the second, which is of another lane.

    `lane`, `start_ns` and `end_ns` are of each row, in order of start. A pair is left out when
    the second had not ended when the first began.
    """
    uses = uses.sorted()
    pairs = np.concatenate([_behind_changes(uses), _before_changes(uses, lane)])
    first, second = pairs[:, 0], pairs[:, 1]
    is_needed = (lane[first] != lane[second]) & (end_ns[second] <= start_ns[first])
    return _latest(first[is_needed], second[is_needed], lane)


def _behind_changes(uses: Uses) -> Integers:
    """Return each use with the change before it."""
    count = len(uses.row)
    places = np.arange(count)
    # The change before place i is at most place i - 1, and of the same thing.
    changed = np.maximum.accumulate(np.where(uses.is_change, places, -1))
    before = np.concatenate([[-1], changed[:-1]]).astype(np.int64) if count else changed
    known = before >= 0
    known[known] &= uses.thing[before[known]] == uses.thing[known]
    return np.stack([uses.row[known], uses.row[before[known]]], axis=1)


def _before_changes(uses: Uses, lane: Integers) -> Integers:
    """Return each change with the last use of each lane since the change before."""
    if len(uses.row) == 0:
        return np.zeros((0, 2), np.int64)
    starts = np.flatnonzero(uses.is_change)
    epoch = np.cumsum(uses.is_change)
    own_lane = lane[uses.row]
    order = np.lexsort((uses.row, own_lane, epoch, uses.thing))
    things, epochs, lanes = uses.thing[order], epoch[order], own_lane[order]
    is_last = np.ones(len(order), bool)
    is_last[:-1] = (
        (things[1:] != things[:-1]) | (epochs[1:] != epochs[:-1]) | (lanes[1:] != lanes[:-1])
    )
    last = order[is_last]
    # The change that ends an epoch is the first one behind it, if it is of the same thing.
    following = epoch[last]
    has_next = following < len(starts)
    last, following = last[has_next], following[has_next]
    change = starts[following]
    same = uses.thing[change] == uses.thing[last]
    return np.stack([uses.row[change[same]], uses.row[last[same]]], axis=1)


def _latest(first: Integers, second: Integers, lane: Integers) -> tuple[Integers, Integers]:
    """Keep, for each row, the last of each lane that it waits for."""
    order = np.lexsort((second, lane[second], first))
    first, second = first[order], second[order]
    is_last = np.ones(len(first), bool)
    is_last[:-1] = (first[1:] != first[:-1]) | (lane[second[1:]] != lane[second[:-1]])
    return first[is_last], second[is_last]


def lanes(tid: Integers, *, start_ns: Integers, end_ns: Integers) -> Integers:
    """Return a lane for each row: threads that did not live at the same time share one.

    A lane is taken by the thread that begins next after it became free, the longest free one first.
    """
    threads, place = np.unique(tid, return_inverse=True)
    first = np.full(len(threads), np.iinfo(np.int64).max)
    last = np.full(len(threads), np.iinfo(np.int64).min)
    np.minimum.at(first, place, start_ns)
    np.maximum.at(last, place, end_ns)
    lane_of = np.zeros(len(threads), np.int64)
    free_at: list[tuple[int, int]] = []
    for thread in np.argsort(first, kind="stable").tolist():
        begins = int(first[thread])
        if free_at and free_at[0][0] <= begins:
            lane_of[thread] = heapq.heappop(free_at)[1]
        else:
            lane_of[thread] = len(free_at)
        heapq.heappush(free_at, (int(last[thread]), int(lane_of[thread])))
    return lane_of[place]
