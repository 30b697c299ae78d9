"""What each request waited for: the completion that came last before it, for a closed loop."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tracekit.plan.file import AFTER_MAX
from tracekit.plan.source import Rows

Integers = npt.NDArray[np.int64]


def _none() -> Integers:
    return np.empty(0, np.int64)


@dataclass
class Waits:
    """Finds, in a stream of requests in order of time, the one that each came after.

    A request comes after the last completion that is earlier than it: its think time is what
    passed since. Those before the first completion came after none. Kept are only requests in
    flight, and the last one that has completed.
    """

    count: int = 0
    without_completion: int = 0
    complete_ns: Integers = field(default_factory=_none)
    position: Integers = field(default_factory=_none)

    def add(self, rows: Rows) -> tuple[Integers, Integers]:
        """Return, for each row, how many rows before it that one stands (0: none) and the think ns.

        Rows come as `Source.rows` yields them, without those that the plan leaves out.
        """
        own = self.count + np.arange(len(rows), dtype=np.int64)
        self.count += len(rows)
        # A completion that is earlier than its own request is none that anybody can have seen.
        has_ended = rows["complete_ns"] >= rows["time_ns"]
        self.without_completion += int((~has_ended).sum())
        ended = np.concatenate([self.complete_ns, rows["complete_ns"][has_ended]])
        position = np.concatenate([self.position, own[has_ended]])
        order = np.argsort(ended, kind="stable")
        ended, position = ended[order], position[order]
        last = np.searchsorted(ended, rows["time_ns"], side="left") - 1
        last = _near(last, position, own)
        after = np.where(last >= 0, own - position[last], 0) if len(ended) else 0 * own
        think = np.where(after > 0, rows["time_ns"] - ended[last], 0) if len(ended) else 0 * own
        first = max(int(np.searchsorted(ended, rows["time_ns"][-1], side="left")) - 1, 0)
        self.complete_ns, self.position = ended[first:], position[first:]
        return after, think


def _near(last: Integers, position: Integers, own: Integers) -> Integers:
    """Go back from a completion whose request stands too far before, to one that does not."""
    found = last.copy()
    for row in (
        np.flatnonzero((last >= 0) & (own - position[last] > AFTER_MAX)) if len(position) else ()
    ):
        while found[row] >= 0 and own[row] - position[found[row]] > AFTER_MAX:
            found[row] -= 1
    return found
