"""The best division of an NVM capacity between roles, from each role's own curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Splits:
    """At each capacity point: the least change of time, and the blocks given to each role."""

    change_ps: NDArray[np.int64]
    blocks: NDArray[np.int64]  # by role (in the order given) and point


def best_splits(points: NDArray[np.int64], changes: list[NDArray[np.int64]]) -> Splits:
    """Return the best division of each capacity (blocks, ascending from 0) between the roles.

    `changes` are the roles' curves at `points`. Roles share no request, so their changes add up.
    Shares are points themselves, and capacity may stay unused where using it costs time; with two
    roles no better division into points exists, with more each further role is weighed against the
    best division of the rest, rounded down to a point. Of equal divisions the first role gets less.
    """
    import numpy as np

    total = np.zeros(len(points), np.int64)
    shares = np.zeros((0, len(points)), np.int64)
    for change in changes:
        own, best = running_best(change)
        total, before_index, own_index = _pair(points, total, own)
        shares = np.vstack([shares[:, before_index], points[best[own_index]]])
    return Splits(total, shares)


def running_best(change: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the least value up to each point, and the index of the first point that has it."""
    import numpy as np

    least = np.minimum.accumulate(change)
    is_new = np.concatenate([[True], least[1:] < least[:-1]])
    index = np.maximum.accumulate(np.where(is_new, np.arange(len(change)), 0))
    return least, index


def _pair(
    points: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the best sum at each point and the indexes of both parts; both curves only fall."""
    import numpy as np

    count = len(points)
    total = np.empty(count, np.int64)
    first_index = np.empty(count, np.int64)
    second_index = np.empty(count, np.int64)
    for index in range(count):
        rest = np.searchsorted(points, points[index] - points[: index + 1], side="right") - 1
        sums = first[: index + 1] + second[rest]
        chosen = int(np.argmin(sums))
        total[index], first_index[index], second_index[index] = sums[chosen], chosen, rest[chosen]
    return total, first_index, second_index
