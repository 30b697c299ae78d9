"""Requests as the parts that go to one device each."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np
import numpy.typing as npt

from tracekit.plan.file import AFTER_MAX

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pieces:
    """Arrays of one entry a piece, in the order of their requests; a flush has no sectors."""

    row: Integers
    """Its request."""
    sector: Integers
    """Of the traced device, or of NVM."""
    end: Integers
    """The sector behind it."""
    operation: Integers
    flags: Integers
    is_nvm: npt.NDArray[np.bool_]

    def take(self, chosen: npt.NDArray[np.bool_] | Integers) -> Pieces:
        """Return the chosen pieces."""
        return Pieces(*(getattr(self, part.name)[chosen] for part in fields(self)))


def together(parts: list[Pieces]) -> Pieces:
    """Put pieces in the order of their requests; those of one request stay as they stand."""
    joined = Pieces(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Pieces)))
    return joined.take(np.argsort(joined.row, kind="stable"))


def _none() -> Integers:
    return np.empty(0, np.int64)


@dataclass
class Steps:
    """Turns what a request waited for, counted in requests, into records of the plan."""

    records: int = 0
    ends: Integers = field(default_factory=_none)
    """The last record of each of the latest requests."""

    def add(
        self, row: Integers, after: Integers, *, think_ns: Integers
    ) -> tuple[Integers, Integers]:
        """Return `after` and think time by record, for pieces of `row` of the next requests.

        A request waits for the last piece of another; one too far back is not waited for.
        """
        counts = np.bincount(row, minlength=len(after))
        ends = np.concatenate([self.ends, self.records + np.cumsum(counts) - 1])
        waited = ends[len(self.ends) + np.arange(len(after)) - after]
        steps = self.records + np.arange(len(row)) - waited[row]
        is_waiting = (after[row] > 0) & (steps <= AFTER_MAX)
        self.records += len(row)
        self.ends = ends[-AFTER_MAX:]
        return np.where(is_waiting, steps, 0), np.where(is_waiting, think_ns[row], 0)
