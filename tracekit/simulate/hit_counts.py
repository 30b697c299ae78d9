"""LRU hits at each cache size, exact or from a sample: what curves and planes are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.native.curves import GROUPS, SHARDS_SCALE, Shards, ShardsTotals

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The points of a curve err together, so a band that holds 95 % of the points of nearly every curve
# is that of a much surer point: 99.7 %, by Student's t with GROUPS - 1 degrees of freedom and by
# the normal distribution.
T = 3.22
Z = 2.97


@dataclass(frozen=True)
class HitCounts:
    """Hits by row (role * 2 + is_write) and size, sizes in pages from 0 on.

    `references` and `cold` (first references) are by row. Of a sample, the misses are estimates
    and `low` and `high` bound them; exact counts have no bounds.
    """

    sizes: NDArray[np.int64]
    references: NDArray[np.float64]
    hits: NDArray[np.float64]
    cold: NDArray[np.float64]
    shards: ShardsTotals | None = None
    misses: NDArray[np.float64] | None = None  # of a sample: by group, row and size

    def at(self, size: int) -> NDArray[np.float64]:
        """Return the hits by row at one of the sizes."""
        import numpy as np

        found: NDArray[np.float64] = self.hits[:, int(np.searchsorted(self.sizes, size))]
        return found

    def miss_ratios(self, rows: list[int]) -> NDArray[np.float64]:
        """Return misses of these rows by size, as a share of their references (not 0)."""
        total = self.references[rows].sum()
        ratio: NDArray[np.float64] = 1 - self.hits[rows].sum(axis=0) / total
        return ratio.clip(0, 1)

    def bounds(self, rows: list[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the error band of the miss ratios; of exact counts the ratios themselves.

        Two errors add up. Which pages were sampled: the spread of the misses between groups of
        pages. What a distance is: of d pages the sample has a binomial number, so the curve can be
        off sideways by its deviation.
        """
        import numpy as np

        ratio = self.miss_ratios(rows)
        if self.misses is None or self.shards is None:
            return ratio, ratio
        rate = self.shards.threshold / SHARDS_SCALE
        misses = self.misses[:, rows].sum(axis=1) / self.references[rows].sum()
        spread = np.sqrt(GROUPS * misses.var(axis=0, ddof=1) * (1 - rate))
        # Pages that were never seen to miss may: one of the sample's mean weight.
        unseen = (1 - rate) / max(1, self.shards.pages)
        aside = Z * np.sqrt((1 - rate) * np.maximum(self.sizes, 1) / rate) + (1 - rate) / rate
        upper = np.interp(self.sizes - aside, self.sizes, ratio)
        lower = np.interp(self.sizes + aside, self.sizes, ratio)
        error = T * spread + unseen
        low, high = np.clip(lower - error, 0, 1), np.clip(upper + error, 0, 1)
        # A cache of no pages misses always.
        return np.where(self.sizes == 0, 1, low), np.where(self.sizes == 0, 1, high)


def exact_hits(counts: NDArray[np.uint64], sizes: NDArray[np.uint64]) -> HitCounts:
    """Turn what the native curve counted into hits by size."""
    import numpy as np

    table = counts.astype(np.float64)
    return HitCounts(
        sizes=np.append(0, sizes).astype(np.int64),
        references=table.sum(axis=1),
        hits=_hits(table),
        cold=table[:, -1],
    )


def sampled_hits(shards: Shards, sizes: NDArray[np.uint64]) -> HitCounts:
    """Turn a sample into hits by size; SHARDS-adj: what the sample lacks or has too much are hits.

    How many references there are is known. A few pages are used very often: the sample has them or
    not, and their references hit in all but the smallest caches, so that is where an excess or lack
    of references belongs; the misses stay as they were sampled.
    """
    import numpy as np

    sums, totals = shards.read()
    references = np.array(totals.references, np.float64)
    misses = sums.sum(axis=2)[:, :, None] - _hits(sums)  # by group, row and size
    missed = np.minimum(misses.sum(axis=0), references[:, None])
    missed[:, 0] = references
    return HitCounts(
        sizes=np.append(0, sizes).astype(np.int64),
        references=references,
        hits=references[:, None] - missed,
        cold=sums[:, :, -1].sum(axis=0),
        shards=totals,
        misses=misses,
    )


def _hits(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return hits by size, of which the first is 0, along the last axis."""
    import numpy as np

    within = table[..., :-2].cumsum(axis=-1)
    return np.concatenate([np.zeros((*table.shape[:-1], 1)), within], axis=-1)
