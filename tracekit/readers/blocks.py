"""What shows that places or lengths are numbers of 4 KiB blocks: pairs, and what is whole blocks.

Where places are such numbers and are taken for sectors, requests that follow each other overlap,
and places are seldom whole blocks though all lengths are. Disks were seen to have neither.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from tracekit.readers.units import SIZE_BYTES, Units
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES

BLOCK_SECTORS = BLOCK_BYTES // SECTOR_BYTES
SAMPLED = 1 << 12
"""Of the requests that come at once about so many are looked at, evenly over them."""
FEWEST = 100
FEWEST_PAIRS = 8
PART = 0.05
FEW_STEPS, FEW_LENGTHS = 0.3, 0.2
"""Shares of whole blocks: 1/8 of steps between random numbers of blocks; of traces of disks at
least 0.58 of the steps and 0.79 of the lengths were."""


def ratio_of(offset: str, length: str) -> float:
    """Return how many of a length's unit a place's unit is."""
    return SIZE_BYTES[offset] / SIZE_BYTES[length]


RATIOS = {ratio_of(offset, length) for offset, length in product(SIZE_BYTES, repeat=2)}


@dataclass
class Blocks:
    """What is seen of a part of the requests, as they stand in the file."""

    pairs: Counter[float] = field(default_factory=Counter)
    """Requests that begin where the one before ends, by how many lengths a place's unit is."""
    steps: int = 0
    """Requests that begin elsewhere than the one before."""
    whole_steps: int = 0
    """Of these, so many whole blocks away, were places sectors."""
    lengths: int = 0
    whole_lengths: int = 0
    """Whole blocks, were lengths sectors."""

    def add(self, steps: Any, before: Any) -> None:
        """Count distances to the request before, and that one's length."""
        for ratio in RATIOS:
            self.pairs[ratio] += int(np.count_nonzero(steps * ratio == before))
        steps = steps[steps != 0]
        self.steps += len(steps)
        self.whole_steps += int(np.count_nonzero(steps % BLOCK_SECTORS == 0))
        self.lengths += len(before)
        self.whole_lengths += int(np.count_nonzero(before % BLOCK_SECTORS == 0))

    def has_few_steps(self) -> bool:
        """Say whether places, were they sectors, are whole blocks too seldom."""
        return self.steps >= FEWEST and self.whole_steps < FEW_STEPS * self.steps

    def has_few_lengths(self) -> bool:
        """Say whether lengths, were they sectors, are whole blocks too seldom."""
        return self.lengths >= FEWEST and self.whole_lengths < FEW_LENGTHS * self.lengths

    def against(self, units: Units) -> tuple[int, int]:
        """Return the pairs in the likeliest units with blocks, or in any, and in these units."""
        theirs = max(self.of("pages", "bytes"), self.of("pages", "sectors"), self.with_lengths())
        mine = self.of(units.offset, units.length)
        if units.has_pages:
            theirs = max(self.pairs.values(), default=0)
        return (theirs, mine) if theirs >= FEWEST_PAIRS else (0, mine)

    def of_part(self, units: Units) -> int:
        """Return the pairs in other units, if they are no few beside those in these.

        Where places or lengths of a part are in another unit; a stride is no sign of it.
        """
        mine = ratio_of(units.offset, units.length)
        factors = (BLOCK_SECTORS, SECTOR_BYTES, 1 / SECTOR_BYTES)
        theirs = max(self.pairs[mine * factor] for factor in factors)
        is_seen = theirs >= max(FEWEST_PAIRS, PART * self.pairs[mine])
        return theirs if is_seen else 0

    def of(self, offset: str, length: str) -> int:
        """Return the pairs in these units."""
        return self.pairs[ratio_of(offset, length)]

    def with_lengths(self) -> int:
        """Return the pairs if lengths alone are blocks: then few are whole ones by themselves.

        Where they are, each can be one of a stride of eight times its length.
        """
        return self.strides() if 2 * self.whole_lengths < self.lengths else 0

    def strides(self) -> int:
        """Return how many requests begin eight times the length of the one before behind it."""
        found = max(self.of(offset, "pages") for offset in ("bytes", "sectors"))
        return found if found > 2 * self.pairs[1.0] else 0

    def may_be_lengths(self) -> bool:
        """Say whether lengths look like blocks, by alignment or by pairs where places are not."""
        return self.has_few_lengths() or self.strides() >= FEWEST_PAIRS

    def may_be_places(self) -> bool:
        """Say whether more requests follow each other if places are blocks and lengths are not."""
        theirs = max(self.of("pages", "bytes"), self.of("pages", "sectors"))
        others = [self.pairs[ratio] for ratio in (1.0, SECTOR_BYTES, 1 / SECTOR_BYTES)]
        return theirs >= FEWEST_PAIRS and theirs > 2 * max(others)
