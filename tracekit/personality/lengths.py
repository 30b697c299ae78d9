"""How long each file of a share is at any time of its turns, worked out in whole columns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tracekit.personality.layout import Numbers


@dataclass
class Lengths:
    """What happens to the lengths of a share's files, in any order, and who asks for them."""

    count: int
    initial: Numbers
    when: list[Numbers] = field(default_factory=list)
    file: list[Numbers] = field(default_factory=list)
    added: list[Numbers] = field(default_factory=list)
    is_reset: list[bool] = field(default_factory=list)

    def note(self, when: Numbers, file: Numbers, *, added: Numbers, is_reset: bool = False) -> int:
        """Note that files grow, or with `is_reset` begin anew; return the number of the note."""
        self.when.append(when)
        self.file.append(file)
        self.added.append(added)
        self.is_reset.append(is_reset)
        return len(self.when) - 1

    def lengths(self) -> list[Numbers]:
        """Return for each note the length of each file right before it."""
        rows = [len(one) for one in self.when]
        when, file, added = (np.concatenate(one) for one in (self.when, self.file, self.added))
        reset = np.repeat(np.array(self.is_reset), rows)
        order = np.lexsort((when, file))
        before = np.concatenate([[0], np.cumsum(added[order])[:-1]])
        first = np.concatenate([[True], np.diff(file[order]) != 0])
        place = np.arange(len(order))
        start = np.maximum.accumulate(np.where(first, place, 0))
        # What a reset adds comes after it; the reset before this note is what counts.
        begun = np.where(reset[order], place, -1)
        begun = np.concatenate([[-1], np.maximum.accumulate(begun)[:-1]])
        is_new = begun >= start
        length = before - before[np.where(is_new, begun, start)]
        length = length + np.where(is_new, 0, self.initial[file[order]])
        found = np.empty(len(order), np.int64)
        found[order] = length
        return np.split(found, np.cumsum(rows)[:-1])
