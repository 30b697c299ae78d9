"""How far a program came that was killed: which requests of its plan have completions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tracekit.plan import file
from tracekit.replay.completions import read_records

MOST_AHEAD = 1 << 20
"""Completions behind a request without one that are looked at; what is in flight is far fewer."""
Ids = npt.NDArray[np.uint64]


def first_without_completion(plan: Path, records: Path, *, begin: int, from_ns: int = 0) -> int:
    """Return the first record of the plan that was not completed: all before it were.

    `begin` and `from_ns` are the number and the time in the plan from which on it ran. `records`
    is the program's file; its last record may be cut off. Records behind the one that is returned
    may be completed too, since requests complete in any order.
    """
    header = np.fromfile(plan, file.HEADER, 1)[0]
    rows = np.memmap(
        plan,
        file.RECORD,
        "r",
        offset=int(header["records_offset"]),
        shape=(int(header["record_count"]),),
    )
    at = max(begin, int(np.searchsorted(rows["intended_ns"], from_ns)) if from_ns else 0)
    return _walk(rows["request_id"], read_records(records), at)


def _walk(planned: Ids, chunks: Iterator[npt.NDArray[np.void]], at: int) -> int:
    ahead = np.zeros(0, np.uint64)
    for chunk in chunks:
        ahead = np.concatenate([ahead, chunk["request_id"]])
        here = np.asarray(planned[at : at + len(ahead)])
        done = _done(here, ahead)
        at += done
        ahead = _without(ahead, here[:done])
        if len(ahead) > MOST_AHEAD:
            break
    return at


def _done(planned: Ids, ended: Ids) -> int:
    """Return how many records at the start of `planned` are in `ended`, each for itself.

    The pieces of a request have its id: the second piece needs the id twice.
    """
    ids, counts = np.unique(ended, return_counts=True)
    order = np.argsort(planned, kind="stable")
    grouped = planned[order]
    nth = np.empty(len(planned), np.int64)
    nth[order] = np.arange(len(planned)) - np.searchsorted(grouped, grouped)
    place = np.searchsorted(ids, planned)
    known = place < len(ids)
    known[known] = ids[place[known]] == planned[known]
    known[known] = nth[known] < counts[place[known]]
    return int(np.argmin(known)) if not known.all() else len(planned)


def _without(ended: Ids, taken: Ids) -> Ids:
    """Return `ended` less one of each in `taken`, all of which are in it."""
    ids, counts = np.unique(ended, return_counts=True)
    counts -= np.bincount(np.searchsorted(ids, taken), minlength=len(ids))
    return np.repeat(ids, counts)
