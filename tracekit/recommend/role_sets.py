"""The best split of the NVM between every set of roles: each alone, each pair, all of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.recommend.answer import Candidate, candidates, saved_ratio, to_ns
from tracekit.schema import BLOCK_BYTES
from tracekit.simulate.placement import Curves

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST_SHARING = 2


@dataclass(frozen=True)
class RoleSet:
    """What the roles of a set reach together at one capacity; others stay on the base device."""

    placement: str  # a role, several as fs+journal, or combined: all roles of the trace
    capacity_bytes: int
    fs_bytes: int
    journal_bytes: int
    swap_bytes: int
    elapsed_ns: int
    gain_ratio: float  # of the base device's time


def pairs(
    curves: Curves, coverage: str
) -> Iterator[tuple[str, NDArray[np.int64], dict[str, NDArray[np.int64]]]]:
    """Yield each set of two roles, where the trace has more, named as in fs+journal.

    With it come the change of time in ps and the blocks by role, at each capacity point.
    """
    roles = curves.placed_roles
    for size in range(LEAST_SHARING, len(roles)):
        for held in itertools.combinations(roles, size):
            split = curves.splits(coverage, held)
            yield "+".join(held), split.change_ps, dict(zip(held, split.blocks, strict=True))


def role_sets(curves: Curves, coverage: str, *, index: int) -> list[RoleSet]:
    """Return every set of roles at one capacity point, the shortest time first.

    Of equal times the smaller set comes first, as it is simpler.
    """
    _, *alone, together = candidates(curves, coverage)
    shared = [
        Candidate(name, curves.base_total_ps + change_ps, blocks)
        for name, change_ps, blocks in pairs(curves, coverage)
    ]
    several = [together] if len(alone) >= LEAST_SHARING else []
    found = [*alone, *shared, *several]
    return [
        _at(curves, candidate, index)
        for candidate in sorted(found, key=lambda one: int(one.elapsed_ps[index]))
    ]


def _at(curves: Curves, candidate: Candidate, index: int) -> RoleSet:
    given = {role: int(blocks[index]) * BLOCK_BYTES for role, blocks in candidate.blocks.items()}
    elapsed_ps = int(candidate.elapsed_ps[index])
    return RoleSet(
        placement=candidate.placement,
        capacity_bytes=int(curves.points[index]) * BLOCK_BYTES,
        fs_bytes=given.get("fs", 0),
        journal_bytes=given.get("journal", 0),
        swap_bytes=given.get("swap", 0),
        elapsed_ns=to_ns(elapsed_ps),
        gain_ratio=saved_ratio(elapsed_ps, curves.base_total_ps),
    )
