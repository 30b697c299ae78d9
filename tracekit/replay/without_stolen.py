"""What replays of the same requests take on a processor that others have, too, without that.

A request counts with what it took in the repeats in which no time was stolen meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tracekit.arrow import name_codes, numbers, read_columns
from tracekit.stolen_time import Stretches
from tracekit.store import TraceFolder
from tracekit.tables import ROLES

DONE = ("request_id", "submit_ns", "complete_ns")
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Took:
    """What one replay took by request, or piece of one, in order of submission, in ns."""

    step_ns: Integers
    """From the completion of the one before it to its own: the sum is the elapsed time."""
    service_ns: Integers
    role: Integers
    """Number of its role."""
    is_clear: npt.NDArray[np.bool_]
    """Whether no time was stolen meanwhile."""

    @property
    def left_out_ratio(self) -> float:
        """Share of requests meanwhile time was stolen."""
        return float(1 - self.is_clear.mean())


def read_took(folder: TraceFolder, replay: str, *, stolen: Stretches) -> Took:
    """Return what a replay took; `stolen` is in ns from its start. One request at a time."""
    done = _columns(folder.table(f"replays/{replay}/completions"), DONE)
    number, begin_ns, end_ns = done[:, np.argsort(done[1], kind="stable")]
    before_ns = np.concatenate([begin_ns[:1], end_ns[:-1]])
    ids, roles = _columns(folder.table("requests"), ("request_id", "role"))
    order = np.argsort(ids)
    return Took(
        step_ns=end_ns - before_ns,
        service_ns=end_ns - begin_ns,
        role=roles[order][np.searchsorted(ids[order], number)],
        is_clear=stolen.clear(before_ns, end_ns),
    )


def _columns(file: Path, names: Sequence[str]) -> Integers:
    """Return columns of numbers as rows of an array; that of roles as their numbers."""
    parts = [
        [
            name_codes(column[name], list(ROLES)) if name == "role" else numbers(column[name])
            for name in names
        ]
        for column in read_columns(file, names)
    ]
    return np.concatenate([np.array(part, np.int64) for part in parts], axis=1)


def times_without(runs: Sequence[Took]) -> list[tuple[float, dict[str, float]]]:
    """Return of each repeat the elapsed time and the service time by role, without what was stolen.

    The sum of its clear requests, by what all requests usually take to what these usually take.
    """
    if len({len(one.step_ns) for one in runs}) > 1:
        raise ValueError("the repeats are not of the same requests")
    clear = np.array([one.is_clear for one in runs])
    step_ns, service_ns = (
        np.array([getattr(one, f"{name}_ns") for one in runs]) for name in ("step", "service")
    )
    role, found = runs[0].role, list[tuple[float, dict[str, float]]]()
    everything = np.ones(len(role), bool)
    for number in range(len(runs)):
        times = _Times(step_ns, clear, number), _Times(service_ns, clear, number)
        by_role = {name: times[1].of(role == n) for n, name in enumerate(ROLES)}
        found.append((times[0].of(everything), {k: v for k, v in by_role.items() if v}))
    return found


class _Times:
    """One repeat's times of requests, beside what they usually take."""

    def __init__(self, times_ns: Integers, clear: npt.NDArray[np.bool_], number: int) -> None:
        counts = clear.sum(axis=0)
        sums = np.where(clear, times_ns, 0).sum(axis=0)
        # What was never clear takes what it took: that is too much, and not too little.
        self._usual = np.where(counts, sums / np.maximum(counts, 1), times_ns.mean(axis=0))
        self._own, self._clear = times_ns[number], clear[number]

    def of(self, chosen: npt.NDArray[np.bool_]) -> float:
        """Return what the chosen requests take."""
        kept = chosen & self._clear
        usual = float(self._usual[kept].sum())
        if usual <= 0:
            return float(self._own[chosen].sum())
        return float(self._own[kept].sum()) * float(self._usual[chosen].sum()) / usual
