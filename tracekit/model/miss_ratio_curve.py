"""Miss ratio curves: the hits of an LRU cache at every size, exact or from a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit import arrow
from tracekit._native import caches
from tracekit._native.caches import GROUPS, SHARDS_SCALE
from tracekit.arrow import Floats, Integers, numbers, read_columns
from tracekit.model.block_orders import TouchedBlocks
from tracekit.tables import ROLES
from tracekit.units import BLOCK_BYTES

# The points of a curve err together, so a band that covers 95 % of the points of nearly every curve
# is that of one point with more confidence: 99.7 %, by Student's t with GROUPS - 2 degrees of
# freedom (a mean and a slope are fitted to the groups) and by the normal distribution.
T = 3.23
Z = 2.97
COLUMNS = ["device", "sector", "length_bytes", "operation", "role"]
# Without a table of blocks a device's pages are apart from another's by this many.
DEVICE_PAGES = 1 << 46
UNKNOWN = ""
# What is not known to be a write counts as a read.
KINDS = {"read": caches.READ, "write": caches.WRITE, UNKNOWN: caches.READ}


@dataclass(frozen=True)
class Sample:
    """What bounds the misses of a sample.

    `residuals` are by group of pages, row and size: what a group's references do not explain of its
    misses. `surplus` is by row and size: how much of the misses was inferred from references of
    which the sample has too few or too many. `leverage` is by row: how far these are from what the
    groups have.
    """

    shards: caches.ShardsTotals
    residuals: Floats
    surplus: Floats
    leverage: Floats


@dataclass(frozen=True)
class HitCounts:
    """Hits by row (role * 2 + is_write) and size, sizes in pages from 0 on.

    `references` and `cold` (first references) are by row. Of a sample, the hits are estimates;
    exact counts have no sample.
    """

    sizes: Integers
    references: Floats
    hits: Floats
    cold: Floats
    sample: Sample | None = None

    @property
    def shards(self) -> caches.ShardsTotals | None:
        """Size and rate of the sample, None of exact counts."""
        return self.sample.shards if self.sample else None

    def row(self, row: int) -> HitCounts:
        """Return the exact counts of one row for reads and one for writes."""
        rows = slice(2 * row, 2 * row + 2)
        return HitCounts(self.sizes, self.references[rows], self.hits[rows], self.cold[rows])

    def at(self, size: int) -> Floats:
        """Return the hits by row at one of the sizes."""
        found: Floats = self.hits[:, int(np.searchsorted(self.sizes, size))]
        return found

    def miss_ratios(self, rows: list[int]) -> Floats:
        """Return misses of these rows by size, as a share of their references (not 0)."""
        total = self.references[rows].sum()
        ratio: Floats = 1 - self.hits[rows].sum(axis=0) / total
        return ratio.clip(0, 1)

    def bounds(self, rows: list[int]) -> tuple[Floats, Floats]:
        """Return the error band of the miss ratios; of exact counts the ratios themselves.

        Three errors add up. Which pages were sampled: the spread of the residuals between groups of
        pages. What a distance is: of d pages the sample has a binomial number, so the curve can be
        off sideways by its deviation. And what the missing references are: the
        estimate has them like those of the sample, but they may as well be hits of a few pages that
        are used very often, and hide that the sample has more of the others than it should.
        """
        ratio = self.miss_ratios(rows)
        if self.sample is None:
            return ratio, ratio
        total = self.references[rows].sum()
        rate = self.sample.shards.threshold / SHARDS_SCALE
        # The deviation of the misses by size is that of a regression's forecast.
        residuals = self.sample.residuals[:, rows].sum(axis=1)
        variance = (residuals**2).sum(axis=0) / (GROUPS - 2)
        spread = np.sqrt(variance * (GROUPS + self.sample.leverage[rows].max()))
        error = spread * np.sqrt(1 - rate) / total
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


def exact_hits(counts: NDArray[np.uint64], sizes: NDArray[np.uint64]) -> HitCounts:
    """Turn what the native curve counted into hits by size."""
    table = counts.astype(np.float64)
    return HitCounts(
        sizes=np.append(0, sizes).astype(np.int64),
        references=table.sum(axis=1),
        hits=_hits(table),
        cold=table[:, -1],
    )


def sampled_hits(shards: caches.Shards, sizes: NDArray[np.uint64]) -> HitCounts:
    """Turn a sample into hits by size."""
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
    misses: Floats, references: Floats, totals: caches.ShardsTotals
) -> tuple[Floats, Sample]:
    """Return misses by row and size, corrected for a wrong number of references.

    How many references there are is known. By how much a group of pages with more references has
    more misses is the slope of their regression, so the misses of a row are those of the sample and
    its slope times the references that are missing (the regression estimator: Cochran, Sampling
    Techniques, 1977, chapter 7). A few pages that are used very often have many references and hit
    in all but the smallest caches: the slope is near zero. In a loop all pages are alike, and it is
    the miss ratio. SHARDS-adj is the slope zero for all.
    """
    sampled = misses[:, :, :1]  # a cache of no pages misses all
    missing = references - sampled.sum(axis=(0, 2))
    apart = sampled - sampled.mean(axis=0)
    square = (apart**2).sum(axis=0)
    slope = (apart * (misses - misses.mean(axis=0))).sum(axis=0) / np.where(square > 0, square, 1)
    slope = slope.clip(0, 1)
    surplus = slope * missing[:, None]
    missed = (misses.sum(axis=0) + surplus).clip(0, references[:, None])
    missed[:, 0] = references
    missed = np.minimum.accumulate(missed, axis=1)
    residuals = misses - misses.mean(axis=0) - slope * apart
    leverage = missing**2 / np.where(square > 0, square, 1)[:, 0]
    return missed, Sample(totals, residuals, surplus, leverage)


def _hits(table: Floats) -> Floats:
    """Return hits by size, of which the first is 0, along the last axis."""
    within = table[..., :-2].cumsum(axis=-1)
    return np.concatenate([np.zeros((*table.shape[:-1], 1)), within], axis=-1)


@dataclass
class Accesses:
    """Reads the requests once, from front to back; `impossible` counts what was left out."""

    requests: Path
    page_bytes: int
    device_names: list[str] = field(default_factory=list)
    first_keys: Integers | None = None  # of each device's page 0; None: far apart
    impossible: int = 0

    def read(self, on_rows: Callable[[int], None] | None = None) -> Iterator[NDArray[np.void]]:
        """Yield reads and writes as native accesses."""
        for column in read_columns(self.requests, COLUMNS):
            rows, impossible = caches.make_accesses(self._coded(column), self.page_bytes)
            self.impossible += impossible
            yield rows
            if on_rows is not None:
                on_rows(len(column["sector"]))

    def _coded(self, column: dict[str, Any]) -> caches.AccessColumns:
        devices, device = arrow.texts(column["device"])
        operations, operation = arrow.texts(column["operation"])
        roles, role = arrow.texts(column["role"])
        # The last entry of each table is that of nulls.
        kinds = [KINDS.get(name, caches.NEITHER) for name in [*operations, UNKNOWN]]
        known = [name if name in ROLES else "unknown" for name in [*roles, "unknown"]]
        codes = [ROLES.index(name) for name in known]
        return caches.AccessColumns(
            numbers(column["sector"]),
            numbers(column["length_bytes"]),
            device,
            operation,
            role,
            self._first_keys(devices),
            np.array(kinds, np.uint8),
            np.array(codes, np.uint8),
        )

    def _first_keys(self, devices: list[str]) -> Integers:
        """Return the key of page 0 of each of the devices, and of one that is not named."""
        if self.first_keys is None:
            self.device_names += [name for name in devices if name not in self.device_names]
        last = len(self.device_names)
        known = {name: index for index, name in enumerate(self.device_names)}
        numbers_of = np.array([known.get(name, last) for name in devices] + [last], np.int64)
        if self.first_keys is None:
            return numbers_of * DEVICE_PAGES
        return self.first_keys[numbers_of]


@dataclass(frozen=True)
class Pages:
    """All touched pages, and by device where its pages begin."""

    device_names: list[str]
    keys: Integers  # ascending
    first_keys: Integers  # of page 0; one more than devices, which finds no page
    first_ranks: Integers  # how many keys come before those of the device

    def device_of(self, runs: NDArray[np.void]) -> Integers:
        """Return the number of the device of each run of pages."""
        found: Integers = np.searchsorted(self.first_ranks, runs["first"], "right") - 1
        return found


def page_keys(touched: TouchedBlocks, page_bytes: int) -> Pages:
    """Return the pages in which the touched blocks lie."""
    scale = page_bytes // BLOCK_BYTES
    first_keys = np.full(len(touched.device_names) + 1, -DEVICE_PAGES, np.int64)
    first_ranks = np.zeros(len(touched.device_names), np.int64)
    parts = [np.empty(0, np.int64)]
    next_key = 0
    bounds = np.searchsorted(touched.keys, touched.devices["first_key"])
    for index in range(len(touched.device_names)):
        device = touched.devices[index]
        end = bounds[index] + np.searchsorted(
            touched.keys[bounds[index] :], device["first_key"] + device["blocks"]
        )
        blocks = touched.keys[bounds[index] : end] - device["first_key"] + device["first_block"]
        pages = blocks // scale
        first_ranks[index] = sum(map(len, parts))
        if not len(pages):
            continue
        pages = pages[np.concatenate([[True], np.diff(pages) > 0])] if scale > 1 else pages
        first_keys[index] = next_key - int(pages[0])
        parts.append(pages + first_keys[index])
        next_key = int(parts[-1][-1]) + 2
    return Pages(touched.device_names, np.concatenate(parts), first_keys, first_ranks)
