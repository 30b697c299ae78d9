"""What is compared of a trace and of the requests of its profile, the same for both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tracekit.fit.gaps import correlation, dispersion
from tracekit.fit.requests import SECTOR_BYTES, Requests, read_requests

Floats = npt.NDArray[np.float64]
SAMPLE = 1_000_000
WINDOWS = 200
PAGE_BYTES = 4096
PAGE_LIMIT = 1 << 17
ALL = "all"


@dataclass(frozen=True)
class Scope:
    """What was seen of all requests, or of one role's."""

    mix: Mapping[tuple[int, int], int]
    sizes: Floats
    gaps: Floats
    run_lengths: Floats
    dispersion: float
    correlation: float


@dataclass(frozen=True)
class Measured:
    """Scopes by role, the LRU curve (misses by size in pages, from 0) and its distances.

    `distances` are cumulated hits by size, `references` all that were counted.
    """

    scopes: Mapping[str, Scope]
    sizes: npt.NDArray[np.int64]
    miss_ratios: Floats
    distances: Floats
    references: int


def measure(path: Path, *, limit: int, window_ns: float) -> Measured:
    """Return what a table of requests shows; windows are those of the index of dispersion."""
    requests = read_requests(path, limit)
    roles = np.array([role for _, role in requests.regions])
    of_row = roles[requests.rows["region"]]
    scopes = {ALL: _scope(requests, np.ones(len(of_row), bool), window_ns)}
    names = sorted(set(roles.tolist()))
    if len(names) > 1:
        for role in names:
            mine = of_row == role
            if mine.any():
                scopes[role] = _scope(requests, mine, window_ns)
    data = int((requests.rows["sectors"] > 0).sum())
    del requests
    return Measured(scopes, *_reuse(path, data))


def _scope(requests: Requests, mine: npt.NDArray[np.bool_], window_ns: float) -> Scope:
    """Return what was seen of some requests; columns are taken one by one, not rows as a whole."""
    rows = requests.rows
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
        sizes=rows["sectors"][data].astype(np.float64) * SECTOR_BYTES,
        gaps=gaps,
        run_lengths=_run_lengths(rows["region"][data], rows["sector"][data], rows["sectors"][data]),
        dispersion=dispersion(times, window_ns),
        correlation=correlation(np.maximum(gaps, 1.0)) if len(gaps) else 0.0,
    )


def _run_lengths(
    region: npt.NDArray[np.uint16], sector: npt.NDArray[np.int64], sectors: npt.NDArray[np.uint32]
) -> Floats:
    """Return the requests of each run, of those of a device and role alone."""
    if not len(sector):
        return np.empty(0)
    order = np.argsort(region, kind="stable")
    begin, end = sector[order], (sector + sectors)[order]
    starts = np.ones(len(order), bool)
    starts[1:] = (begin[1:] != end[:-1]) | (region[order][1:] != region[order][:-1])
    return np.diff(np.flatnonzero(starts), append=len(order)).astype(np.float64)


def _reuse(path: Path, limit: int) -> tuple[npt.NDArray[np.int64], Floats, Floats, int]:
    """Return sizes, miss ratios, hits and references of the pages of the first `limit` requests.

    They are of a sample of the pages if there are many.
    """
    from tracekit.native.curves import SHARDS_SCALE, Shards
    from tracekit.simulate.hit_counts import sampled_hits
    from tracekit.simulate.pages import Accesses

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
