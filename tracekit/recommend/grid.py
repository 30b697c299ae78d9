"""The NVM capacities at which placements are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.schema import BLOCK_BYTES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SHOWN_POINTS = 64
FINE_POINTS = 1024
HEADLINE_SHARE = 0.1


@dataclass(frozen=True)
class Grid:
    """Capacities in 4 KiB blocks, ascending from 0; the shown ones are among the fine ones."""

    fine: NDArray[np.int64]
    shown: NDArray[np.int64]  # indexes in `fine`
    headline: int  # index in `fine`


def make_grid(
    role_blocks: Sequence[int], requested_bytes: Sequence[int], *, max_bytes: int | None = None
) -> Grid:
    """Choose the capacities for a trace that touched so many blocks of each role.

    Shown are about 64 points up to the footprint or `max_bytes`, half evenly spaced, half in even
    ratios, the requested ones and the size of each role; compared are about 1024, every block of a
    small trace. The headline is the first requested capacity, else a tenth of the footprint.
    Capacities are rounded down to whole blocks.
    """
    import numpy as np

    footprint = sum(role_blocks)
    end = footprint if max_bytes is None else max_bytes // BLOCK_BYTES
    requested = [size // BLOCK_BYTES for size in requested_bytes]
    headline = requested[0] if requested else min(-(-footprint // round(1 / HEADLINE_SHARE)), end)
    sizes = [size for size in (*role_blocks, footprint) if size <= end]
    kept = [*requested, headline, *sizes, end]
    shown = _spread(end, SHOWN_POINTS, kept)
    fine = _spread(end, FINE_POINTS, [*kept, *shown.tolist()])
    return Grid(fine, np.searchsorted(fine, shown), int(np.searchsorted(fine, headline)))


def only_shown(grid: Grid) -> Grid:
    """Return the grid of the shown capacities, for models whose time grows with their number."""
    import numpy as np

    fine = grid.fine[grid.shown]
    headline = int(np.searchsorted(fine, grid.fine[grid.headline]))
    return Grid(fine, np.arange(len(fine)), headline)


def _spread(end: int, count: int, kept: Sequence[int]) -> NDArray[np.int64]:
    """Return 0, `kept`, and about `count` whole numbers up to `end`, ascending."""
    import numpy as np

    if end <= count:
        chosen = np.arange(end + 1)
    else:
        even = np.linspace(0, end, count // 2 + 1)
        ratios = np.geomspace(1, end, count // 2)
        chosen = np.rint(np.concatenate([even, ratios])).astype(np.int64)
    return np.unique(np.concatenate([chosen, np.array(kept, np.int64), [0]])).astype(np.int64)
