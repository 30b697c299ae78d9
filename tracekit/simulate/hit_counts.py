"""LRU hits at each cache size, exact or from a sample: what curves and planes are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.native.curves import GROUPS, SHARDS_SCALE, Shards, ShardsTotals

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The points of a curve err together, so a band that holds 95 % of the points of nearly every curve
# is that of a much surer point: 99.7 %, by Student's t with GROUPS - 2 degrees of freedom (a mean
# and a slope are fitted to the groups) and by the normal distribution.
T = 3.23
Z = 2.97


@dataclass(frozen=True)
class Sample:
    """What bounds the misses of a sample.

    `residuals` are by group of pages, row and size: what a group's references do not explain of its
    misses. `surplus` is by row and size: how much of the misses was inferred from references that
    the sample lacks or has more of. `leverage` is by row: how far these are from what the groups
    have.
    """

    shards: ShardsTotals
    residuals: NDArray[np.float64]
    surplus: NDArray[np.float64]
    leverage: NDArray[np.float64]


@dataclass(frozen=True)
class HitCounts:
    """Hits by row (role * 2 + is_write) and size, sizes in pages from 0 on.

    `references` and `cold` (first references) are by row. Of a sample, the hits are estimates;
    exact counts have no sample.
    """

    sizes: NDArray[np.int64]
    references: NDArray[np.float64]
    hits: NDArray[np.float64]
    cold: NDArray[np.float64]
    sample: Sample | None = None

    @property
    def shards(self) -> ShardsTotals | None:
        """Size and rate of the sample, if there is one."""
        return self.sample.shards if self.sample else None

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

        Three errors add up. Which pages were sampled: the spread of the residuals between groups of
        pages. What a distance is: of d pages the sample has a binomial number, so the curve can be
        off sideways by its deviation. And what the references that the sample lacks are: the
        estimate has them like those of the sample, but they may as well be hits of a few pages that
        are used very often, and hide that the sample has more of the others than it should.
        """
        import numpy as np

        ratio = self.miss_ratios(rows)
        if self.sample is None:
            return ratio, ratio
        total = self.references[rows].sum()
        rate = self.sample.shards.threshold / SHARDS_SCALE
        error = _spread(self.sample, rows) * np.sqrt(1 - rate) / total
        # Pages that were never seen to miss may: one of the sample's mean weight.
        unseen = (1 - rate) / max(1, self.sample.shards.pages)
        aside = Z * np.sqrt((1 - rate) * np.maximum(self.sizes, 1) / rate) + (1 - rate) / rate
        upper = np.interp(self.sizes - aside, self.sizes, ratio)
        lower = np.interp(self.sizes + aside, self.sizes, ratio)
        inferred = np.abs(self.sample.surplus[rows].sum(axis=0)) / total
        margin = T * error + unseen + inferred
        low, high = (lower - margin).clip(0, 1), (upper + margin).clip(0, 1)
        # A cache of no pages misses always.
        without = self.sizes == 0
        return np.where(without, 1, low), np.where(without, 1, high)


def _spread(sample: Sample, rows: list[int]) -> NDArray[np.float64]:
    """Return the deviation of the misses of these rows by size: that of a regression's forecast."""
    import numpy as np

    residuals = sample.residuals[:, rows].sum(axis=1)
    variance = (residuals**2).sum(axis=0) / (GROUPS - 2)
    spread: NDArray[np.float64] = np.sqrt(variance * (GROUPS + sample.leverage[rows].max()))
    return spread


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
    """Turn a sample into hits by size."""
    import numpy as np

    sums, totals = shards.read()
    references = np.array(totals.references, np.float64)
    misses = sums.sum(axis=2)[:, :, None] - _hits(sums)  # by group, row and size
    missed, sample = _regression(misses, references, totals)
    return HitCounts(
        sizes=np.append(0, sizes).astype(np.int64),
        references=references,
        hits=references[:, None] - missed,
        cold=sums[:, :, -1].sum(axis=0),
        sample=sample,
    )


def _regression(
    misses: NDArray[np.float64], references: NDArray[np.float64], totals: ShardsTotals
) -> tuple[NDArray[np.float64], Sample]:
    """Return misses by row and size, corrected for references that the sample lacks or has more of.

    How many references there are is known. By how much a group of pages with more references has
    more misses is the slope of their regression, so the misses of a row are those of the sample and
    its slope times the references that it lacks (the regression estimator: Cochran, Sampling
    Techniques, 1977, chapter 7). A few pages that are used very often have many references and hit
    in all but the smallest caches: the slope is near zero. In a loop all pages are alike, and it is
    the miss ratio. SHARDS-adj is the slope zero for all.
    """
    import numpy as np

    sampled = misses[:, :, :1]  # a cache of no pages misses all
    lacking = references - sampled.sum(axis=(0, 2))
    apart = sampled - sampled.mean(axis=0)
    square = (apart**2).sum(axis=0)
    slope = (apart * (misses - misses.mean(axis=0))).sum(axis=0) / np.where(square > 0, square, 1)
    slope = slope.clip(0, 1)
    surplus = slope * lacking[:, None]
    missed = (misses.sum(axis=0) + surplus).clip(0, references[:, None])
    missed[:, 0] = references
    missed = np.minimum.accumulate(missed, axis=1)
    residuals = misses - misses.mean(axis=0) - slope * apart
    leverage = lacking**2 / np.where(square > 0, square, 1)[:, 0]
    return missed, Sample(totals, residuals, surplus, leverage)


def _hits(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return hits by size, of which the first is 0, along the last axis."""
    import numpy as np

    within = table[..., :-2].cumsum(axis=-1)
    return np.concatenate([np.zeros((*table.shape[:-1], 1)), within], axis=-1)
