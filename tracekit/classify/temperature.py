"""Which blocks are hot, warm or cold: one rule on how often each was touched.

A block is *hot* when it belongs to the most touched blocks that together carry
`hot_traffic_ratio` of all touches, and was touched at least twice and at least `hot_factor` times
as often as the mean block. Blocks touched equally often share their fate, so the rule comes down
to one number of touches, and traffic that is spread evenly has no hot blocks however often it
comes. Of the others, *warm* blocks were touched more than once and *cold* ones once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TEMPERATURES = ("hot", "warm", "cold")
WARM_MIN_TOUCHES = 2
RULE = (
    "hot: the most touched blocks that carry hot_traffic_ratio of all touches, each touched at"
    " least twice and hot_factor times as often as the mean block; warm: touched more than once;"
    " cold: touched once"
)


@dataclass(frozen=True)
class TemperatureRule:
    """The two adjustable numbers of the rule."""

    hot_traffic_ratio: float = 0.5  # of all touches, above 0 and at most 1
    hot_factor: float = 2.0  # times the mean touches of a block

    def __post_init__(self) -> None:
        """Refuse numbers that no share or factor can have."""
        if not 0 < self.hot_traffic_ratio <= 1:
            raise UsageError(
                f"the share of touches that hot blocks carry is {self.hot_traffic_ratio}",
                hint="--hot takes a number above 0 and at most 1",
            )
        if not (math.isfinite(self.hot_factor) and self.hot_factor >= 0):
            raise UsageError(
                f"the factor that makes a block hot is {self.hot_factor}",
                hint="--hot-factor takes a number from 0",
            )


class TouchHistogram:
    """How many blocks were touched how often; small, since n counts need n squared touches."""

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}

    def add(self, touches: NDArray[np.uint64]) -> None:
        """Add the touches of some blocks."""
        import numpy as np

        values, blocks = np.unique(touches, return_counts=True)
        for value, count in zip(values.tolist(), blocks.tolist(), strict=True):
            self._blocks[value] = self._blocks.get(value, 0) + count

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return sum(self._blocks.values())

    @property
    def touches(self) -> int:
        """The number of touches of all blocks."""
        return sum(value * count for value, count in self._blocks.items())

    def hot_min_touches(self, rule: TemperatureRule) -> int:
        """Return the touches from which on a block is hot; 2 when there are no blocks."""
        wanted = rule.hot_traffic_ratio * self.touches
        carried = 0
        threshold = WARM_MIN_TOUCHES
        for value in sorted(self._blocks, reverse=True):
            threshold = value
            carried += value * self._blocks[value]
            if carried >= wanted:
                break
        mean = self.touches / self.blocks if self.blocks else 0
        return max(WARM_MIN_TOUCHES, threshold, math.ceil(rule.hot_factor * mean))


def temperature_codes(touches: NDArray[np.uint64], hot_min_touches: int) -> NDArray[np.int8]:
    """Return the index in TEMPERATURES of each block."""
    import numpy as np

    codes = np.full(len(touches), 2, np.int8)
    codes[touches >= WARM_MIN_TOUCHES] = 1
    codes[touches >= hot_min_touches] = 0
    return codes
