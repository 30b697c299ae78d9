"""What is compared of a trace and of the requests of its profile, the same for both."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit._native.caches import SHARDS_SCALE, Shards
from tracekit.arrow import (
    Floats,
    Integers,
    codes,
    count_rejected,
    flag_bytes,
    ints,
    read_batches,
    row_count,
    texts,
)
from tracekit.errors import InputError
from tracekit.model.miss_ratio_curve import Accesses, sampled_hits
from tracekit.plans.block_plan import FLAG_BITS
from tracekit.units import PAGE_BYTES, SECTOR_BYTES
from tracekit.workload import model
from tracekit.workload.fit_arrivals import correlation, dispersion

Flags = npt.NDArray[np.bool_]
CODES: dict[str | None, int] = {name: code for code, name in enumerate(model.OPERATIONS)}
LIMIT = 3_000_000
BEYOND = "beyond the limit"
COLUMNS = ("queue_ns", "sector", "length_bytes", "operation", "device", "role", "process")
MOST_BYTES = 64 << 20

ROWS = np.dtype(
    [
        ("time_ns", "<i8"),
        ("sector", "<i8"),
        ("sectors", "<u4"),
        ("operation", "u1"),
        ("flags", "u1"),
        ("region", "<u2"),
        ("owner", "<u2"),
    ]
)
Rows = npt.NDArray[np.void]


@dataclass
class Requests:
    """Rows in queue order; a region is a device's part of one role, an owner a role's process."""

    rows: Rows
    regions: list[tuple[str, str]]
    owners: list[tuple[str, str | None]]
    left_out: Counter[str] = field(default_factory=Counter)


def read_requests(path: Path, limit: int = LIMIT) -> Requests:
    """Return reads, writes and flushes that have a queue time; all else is counted as left out.

    Raise InputError when none is left.
    """
    limit = min(limit, row_count(path))
    # Memory that is not filled is not taken.
    found = Requests(np.empty(limit, ROWS), [], [])
    taken = 0
    for batch in read_batches(path, [*COLUMNS, *FLAG_BITS]):
        rows = _rows(batch, found)
        left = limit - taken
        if len(rows) > left:
            found.left_out[BEYOND] += len(rows) - left
        found.rows[taken : taken + len(rows)] = rows[:left]
        taken += min(len(rows), left)
    if not taken:
        raise InputError(f"{path}: there is no read, write or flush to make a profile of")
    found.rows = found.rows[:taken]
    times = found.rows["time_ns"]
    if (times[1:] < times[:-1]).any():
        found.rows = found.rows[np.argsort(times, kind="stable")]
    found.rows["time_ns"] -= found.rows["time_ns"][0]
    return found


def _rows(batch: Any, found: Requests) -> Rows:
    rows = np.zeros(batch.num_rows, ROWS)
    known = dict(zip(batch.schema.names, batch.columns, strict=True))
    no_time = -(1 << 62)
    rows["time_ns"] = ints(known["queue_ns"], if_null=no_time)
    length = ints(known["length_bytes"])
    operation = codes(known["operation"], lambda name: CODES.get(name, -1))
    # A write of nothing that flushes is a flush, as in a plan.
    operation = np.where((operation == 1) & (length == 0), 2, operation)
    sector = ints(known["sector"])
    is_flush = operation == 2
    reasons = {
        "no queue time": rows["time_ns"] == no_time,
        "operation": operation < 0,
        "empty": (operation >= 0) & ~is_flush & (length <= 0),
        "impossible": ~is_flush & ((sector < 0) | (sector > 1 << 52)),
        "too long": ~is_flush & (length > MOST_BYTES),
    }
    is_kept = count_rejected(reasons, found.left_out)
    rows["sector"] = np.where(is_flush, 0, sector)
    rows["sectors"] = np.where(is_flush | ~is_kept, 0, -(-length // SECTOR_BYTES))
    rows["operation"] = np.where(operation < 0, 0, operation)
    for name, bit in FLAG_BITS.items():
        rows["flags"] |= flag_bytes(known[name]) * np.uint8(bit)
    rows["region"] = _pairs(known["device"], known["role"], found.regions)
    rows["owner"] = _pairs(known["role"], known["process"], found.owners)
    return rows[is_kept]


def _pairs(first: Any, second: Any, known: list[Any]) -> Integers:
    """Return the numbers of each row's pair of texts, in a list of pairs that grows."""
    (firsts, index), (seconds, second_index) = texts(first), texts(second)
    names, second_names = [*firsts, None], [*seconds, None]
    both = index.astype(np.int64) * len(second_names) + second_index
    table = np.zeros(len(names) * len(second_names), np.int64)
    for pair in np.unique(both).tolist():
        at, second_at = divmod(pair, len(second_names))
        name = (names[at], second_names[second_at])
        if name not in known:
            known.append(name)
        table[pair] = known.index(name)
    return np.asarray(table[both], np.int64)


SAMPLE = 1_000_000
WINDOWS = 200
PAGE_LIMIT = 1 << 17
RUN_COLUMNS = ("region", "sector", "sectors")
ALL = "all"


@dataclass(frozen=True)
class Scope:
    """What was seen of all requests, or of one role's."""

    mix: Mapping[tuple[int, int], int]
    samples: Mapping[str, Floats]
    """By the keys of UNITS."""
    dispersion: float
    correlation: float


@dataclass(frozen=True)
class Measured:
    """Scopes by role, the LRU curve (misses by size in pages, from 0) and its distances.

    `distances` are cumulated hits by size, `references` all that were counted.
    """

    scopes: Mapping[str, Scope]
    sizes: Integers
    miss_ratios: Floats
    distances: Floats
    references: int


def measure(path: Path, *, limit: int, window_ns: float) -> Measured:
    """Return what a table of requests shows; windows are those of the index of dispersion."""
    requests = read_requests(path, limit)
    rows, roles = requests.rows, np.array([role for _, role in requests.regions])
    of_row = roles[rows["region"]]
    scopes = {ALL: _scope(rows, np.ones(len(of_row), bool), window_ns)}
    names = sorted(set(roles.tolist()))
    for role in names if len(names) > 1 else ():
        mine = of_row == role
        if mine.any():
            scopes[role] = _scope(rows, mine, window_ns)
    data = int((rows["sectors"] > 0).sum())
    del requests, rows
    return Measured(scopes, *_reuse(path, data))


def _scope(rows: Rows, mine: Flags, window_ns: float) -> Scope:
    """Return what was seen of some requests; columns are taken one by one, not rows as a whole."""
    kinds, counts = np.unique(
        rows["operation"][mine].astype(np.int64) * 32 + rows["flags"][mine], return_counts=True
    )
    times = rows["time_ns"][mine].astype(np.float64)
    gaps = np.diff(times)
    data = mine & (rows["sectors"] > 0)
    return Scope(
        mix={
            divmod(kind, 32): count
            for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True)
        },
        samples={
            "size": rows["sectors"][data].astype(np.float64) * SECTOR_BYTES,
            "gap": gaps,
            "run_length": _run_lengths(*(rows[name][data] for name in RUN_COLUMNS)),
        },
        dispersion=dispersion(times, window_ns),
        correlation=correlation(np.maximum(gaps, 1.0)) if len(gaps) else 0.0,
    )


def _run_lengths(
    region: npt.NDArray[np.uint16], sector: Integers, sectors: npt.NDArray[np.uint32]
) -> Floats:
    """Return the requests of each run, of those of a device and role alone."""
    if not len(sector):
        return np.empty(0)
    order = np.argsort(region, kind="stable")
    begin, end = sector[order], (sector + sectors)[order]
    starts = np.ones(len(order), bool)
    starts[1:] = (begin[1:] != end[:-1]) | (region[order][1:] != region[order][:-1])
    return np.diff(np.flatnonzero(starts), append=len(order)).astype(np.float64)


def _reuse(path: Path, limit: int) -> tuple[Integers, Floats, Floats, int]:
    """Return sizes, miss ratios, hits and references of the pages of the first `limit` requests.

    They are of a sample of the pages if there are many.
    """
    steps = np.unique((2 ** (np.arange(0, 8 * 28) / 8)).astype(np.uint64))
    with Shards(steps, threshold=SHARDS_SCALE, page_limit=PAGE_LIMIT) as shards:
        for rows in Accesses(path, PAGE_BYTES).read():
            shards.add(rows[:limit])
            limit -= min(limit, len(rows))
            if not limit:
                break
        shared = sampled_hits(shards, steps)
    references = int(shared.references.sum())
    if not references:
        return shared.sizes, np.ones(len(shared.sizes)), np.zeros(len(shared.sizes)), 0
    rows_of_all = list(range(len(shared.references)))
    return shared.sizes, shared.miss_ratios(rows_of_all), shared.hits.sum(axis=0), references


UNITS = {"size": "bytes", "gap": "ns", "run_length": "requests"}
Pair = tuple[float | None, float | None]
NO_PAIR: Pair = (None, None)


def distances(original: Measured, synthetic: Measured) -> list[dict[str, Any]]:
    """Return the rows of the table `fidelity`, for the roles that both have."""
    rows: list[dict[str, Any]] = []
    for role, scope in original.scopes.items():
        if role in synthetic.scopes:
            rows += [{"role": role, **row} for row in _of_scope(scope, synthetic.scopes[role])]
        if role == ALL:
            rows += [{"role": role, **row} for row in _of_reuse(original, synthetic)]
    return rows


def curves(original: Measured, synthetic: Measured) -> list[dict[str, Any]]:
    """Return the rows of the table `fidelity_curve`, up to where neither curve falls any more."""
    last = max(_flat_from(original.miss_ratios), _flat_from(synthetic.miss_ratios)) + 1
    return [
        {"source": name, "size_bytes": int(size) * PAGE_BYTES, "miss_ratio": float(ratio)}
        for name, of in (("original", original), ("synthetic", synthetic))
        for size, ratio in zip(of.sizes[:last], of.miss_ratios[:last], strict=True)
    ]


def _flat_from(ratios: Floats) -> int:
    return int(np.flatnonzero(ratios <= ratios[-1] + 1e-12)[0])


def _row(
    measure: str, unit: str, counts: tuple[int, int], means: Pair = NO_PAIR, gaps: Pair = NO_PAIR
) -> dict[str, Any]:
    numbers = {
        "original_mean": means[0],
        "synthetic_mean": means[1],
        "largest_gap_ratio": gaps[0],
        "mean_gap": gaps[1],
    }
    return {
        "measure": measure,
        "unit": unit,
        "original_count": counts[0],
        "synthetic_count": counts[1],
        **{key: v if v is not None and math.isfinite(v) else None for key, v in numbers.items()},
    }


def _of_scope(one: Scope, other: Scope) -> Iterator[dict[str, Any]]:
    totals = sum(one.mix.values()), sum(other.mix.values())
    kinds = {*one.mix, *other.mix}
    apart = sum(
        abs(one.mix.get(kind, 0) / totals[0] - other.mix.get(kind, 0) / totals[1]) for kind in kinds
    )
    yield _row("mix", "ratio", totals, gaps=(apart / 2, None))
    for name, unit in UNITS.items():
        first, second = one.samples[name], other.samples[name]
        counts = len(first), len(second)
        if all(counts):
            means = float(first.mean()), float(second.mean())
            yield _row(name, unit, counts, means, compared(first, second))
        else:
            yield _row(name, unit, counts)
    yield _row("dispersion", "ratio", totals, (one.dispersion, other.dispersion))
    yield _row("gap_correlation", "ratio", totals, (one.correlation, other.correlation))


def compared(first: Floats, second: Floats) -> tuple[float, float]:
    """Return the distances of Kolmogorov and Smirnov, and of Wasserstein, of a million each."""
    from scipy import stats

    first, second = (values[:: -(-len(values) // SAMPLE)] for values in (first, second))
    with np.errstate(divide="ignore"):  # of the p-value of a single gap, which is not used
        largest = stats.ks_2samp(first, second, method="asymp").statistic
    return float(largest), float(stats.wasserstein_distance(first, second))


def _of_reuse(one: Measured, other: Measured) -> Iterator[dict[str, Any]]:
    counts = one.references, other.references
    if not all(counts):
        yield _row("miss_ratio", "ratio", counts)
        return
    shares = [
        of.distances / of.distances[-1] if of.distances[-1] else of.distances for of in (one, other)
    ]
    sizes = one.sizes.astype(np.float64)
    means = [float((np.diff(share, prepend=0) * sizes).sum()) for share in shares]
    if one.distances[-1] and other.distances[-1]:
        apart = np.abs(shares[0] - shares[1])
        gaps = float(apart.max()), float((apart[:-1] * np.diff(sizes)).sum())
        yield _row("reuse_distance", "pages of 4 KiB", counts, (means[0], means[1]), gaps)
    last = max(_flat_from(one.miss_ratios), _flat_from(other.miss_ratios)) + 1
    gap = np.abs(one.miss_ratios - other.miss_ratios)[:last]
    ratios = float(one.miss_ratios[:last].mean()), float(other.miss_ratios[:last].mean())
    yield _row("miss_ratio", "ratio", counts, ratios, (float(gap.max()), float(gap.mean())))
