"""Which cache sizes are looked at, in pages: those of the curves, the policies and the plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POINTS_PER_OCTAVE = 8
AXIS_OCTAVES = 8
EVEN_STEPS = 8
MOST_PAGES = (1 << 31) - 1


@dataclass(frozen=True)
class Grid:
    """Sizes in pages; `pairs` are PCM, flash and, on a line of equal cost, what all flash has."""

    sizes: NDArray[np.uint64]  # of the curves and all sums of pairs, ascending from 1
    curve: list[int]  # of the curves, from 0
    axis: list[int]  # of the policies and the plane, from 0
    pairs: list[tuple[int, int, int | None]]
    pair_count: int  # of different pairs, with those of the other price ratios


def make_grid(
    footprint: int, sizes_bytes: tuple[int, ...], *, page_bytes: int, price_ratios: Sequence[float]
) -> Grid:
    """Return an eighth of an octave a step up to the footprint, octaves for the plane.

    Sizes that a user chose take the place of the octaves; they are rounded down to pages.
    The first price ratio has its pairs in the plane; the sizes serve the pairs of all.
    """
    import numpy as np

    chosen = sorted({size // page_bytes for size in sizes_bytes})
    if chosen and chosen[-1] > MOST_PAGES:
        raise UsageError(f"--sizes: {max(sizes_bytes)} bytes are more than {MOST_PAGES} pages")
    octaves = [footprint >> shift for shift in range(AXIS_OCTAVES, -1, -1)]
    axis = sorted({0, *(chosen or octaves)})
    largest = max(footprint, axis[-1])
    steps = int(np.log2(largest) * POINTS_PER_OCTAVE) + 1
    curve = {0, footprint, *axis, *(int(2 ** (step / POINTS_PER_OCTAVE)) for step in range(steps))}
    pairs: list[tuple[int, int, int | None]] = []
    pairs += [(pcm, flash, None) for pcm in axis for flash in axis]
    for budget in axis[1:]:
        pairs += [(*pair, budget) for pair in even_pairs(budget, price_ratios[0])]
    needed = [(pcm, flash) for pcm, flash, _ in pairs]
    needed += [pair for ratio in price_ratios for at in axis[1:] for pair in even_pairs(at, ratio)]
    sizes = curve | {pcm for pcm, _ in needed} | {pcm + flash for pcm, flash in needed}
    wanted = np.array(sorted(sizes - {0}), np.uint64)
    return Grid(wanted, sorted(curve), axis, pairs, len(set(needed)))


def even_pairs(flash_pages: int, price_ratio: float) -> list[tuple[int, int]]:
    """Return pairs of PCM and flash that cost what this much flash costs: all flash to all PCM."""
    spent = [flash_pages * step // EVEN_STEPS for step in range(EVEN_STEPS + 1)]
    pairs = [(int(pages / price_ratio), flash_pages - pages) for pages in spent]
    return list(dict.fromkeys(pairs))
