"""Caches on samples of a long trace: whole regions, with as small a part of the capacity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit._native.placement import Rows
from tracekit.model.block_orders import TouchedBlocks
from tracekit.model.placement import ChargedTrace
from tracekit.model.rival_kinds import MIB, CacheTimes, base_alone_ns, compete
from tracekit.units import BLOCK_BYTES, SECTOR_BYTES

REGION_SECTORS = MIB // SECTOR_BYTES
REGION_BLOCKS = MIB // BLOCK_BYTES
AT_ONCE = 1 << 18
SAMPLES = 4
SAMPLED_REQUESTS = 200_000
LEAST_BYTES = 4 * MIB
"""A sample's part of the capacity is at least so large."""
Longs = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Part(ChargedTrace):
    """The requests of some regions of a trace, in memory."""

    kept: list[Rows] = field(default_factory=list)

    def rows(self) -> Iterator[Rows]:
        """Yield them."""
        yield from self.kept


def choose_parts(requests: int, capacity_bytes: int) -> int:
    """Return of how many equal parts a sample is one; 1: all requests are few enough."""
    parts = min(-(-requests * SAMPLES // SAMPLED_REQUESTS), capacity_bytes // LEAST_BYTES)
    return parts if requests > SAMPLED_REQUESTS and parts > SAMPLES else 1


def part_of(device: Longs, region: Longs, *, parts: int) -> Longs:
    """Return the part in which each region of a device is, by a hash."""
    mixed = (device.astype(np.uint64) << np.uint64(48)) + region.astype(np.uint64)
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(factor)
    return ((mixed >> np.uint64(32)) % np.uint64(parts)).astype(np.int64)


def sample_parts(trace: ChargedTrace, *, parts: int, samples: int) -> list[Part]:
    """Return the first parts of a trace. A request ends with its region; a flush is by chance."""
    kept: list[list[Rows]] = [[] for _ in range(samples)]
    for rows in trace.rows():
        region = np.where(rows.length_bytes > 0, rows.sector // REGION_SECTORS, rows.request_id)
        of = part_of(rows.device, region, parts=parts)
        most = np.maximum((region + 1) * REGION_SECTORS - rows.sector, 0) * SECTOR_BYTES
        cut = replace(rows, length_bytes=np.minimum(rows.length_bytes, most))
        for one in range(samples):
            kept[one].append(rows_at(cut, np.flatnonzero(of == one)))
    where = _parts_of_blocks(trace.touched, parts)
    return [
        Part(
            trace.requests,
            _only(trace.touched, where == one),
            trace.devices,
            is_issued=trace.is_issued,
            kept=kept[one],
        )
        for one in range(samples)
    ]


def rows_at(rows: Rows, index: NDArray[np.intp]) -> Rows:
    """Return a copy of some rows."""
    columns = ((one.name, getattr(rows, one.name)) for one in fields(rows))
    chosen: dict[str, Any] = {name: one for name, one in columns if one is not None}
    return replace(rows, **{name: one[index] for name, one in chosen.items()})


def _parts_of_blocks(touched: TouchedBlocks, parts: int) -> NDArray[np.int32]:
    first_keys = touched.devices["first_key"][: len(touched.device_names)]
    shift = touched.devices["first_block"] - touched.devices["first_key"]
    found = np.empty(len(touched.keys), np.int32)
    for begin in range(0, len(found), AT_ONCE):
        keys = touched.keys[begin : begin + AT_ONCE]
        device = np.searchsorted(first_keys, keys, side="right") - 1
        region = (keys + shift[device]) // REGION_BLOCKS
        found[begin : begin + AT_ONCE] = part_of(device, region, parts=parts)
    return found


def _only(touched: TouchedBlocks, chosen: NDArray[np.bool_]) -> TouchedBlocks:
    columns = {
        name: getattr(touched, name)[chosen] for name in ("keys", "role", "accesses", "turn")
    }
    return replace(touched, **columns)


def compete_on_samples(
    trace: ChargedTrace, capacity_bytes: int, *, base_ns: int, parts: int, samples: int = SAMPLES
) -> tuple[list[CacheTimes], list[str]]:
    """Return what each cache takes, from samples that are each one of so many parts.

    What it takes of the base device alone on the samples, it takes of the time of all requests.
    The names of those that not every sample has requests for come second.
    """
    chosen = sample_parts(trace, parts=parts, samples=samples)
    found = [compete(one, capacity_bytes // parts, load=parts)[0] for one in chosen]
    alone_ns = np.array([_alone_ns(one) for one in chosen], np.float64)
    by_kind: dict[tuple[str, str], list[CacheTimes]] = {}
    for row in (row for rows in found for row in rows):
        by_kind.setdefault((row.rival, row.mode), []).append(row)
    whole = [rows for rows in by_kind.values() if len(rows) == samples]
    times = [
        _estimate(rows, alone_ns, base_ns=base_ns, capacity_bytes=capacity_bytes) for rows in whole
    ]
    missing = dict.fromkeys(rows[0].rival for rows in by_kind.values() if len(rows) < samples)
    return times, list(missing)


def _alone_ns(part: Part) -> int:
    plain = [replace(rows, role=np.zeros_like(rows.role)) for rows in part.kept]
    return base_alone_ns(replace(part, kept=plain))


def _estimate(
    rows: Sequence[CacheTimes], alone_ns: NDArray[np.float64], *, base_ns: int, capacity_bytes: int
) -> CacheTimes:
    """Return the ratio estimate of a cache's times, and two standard errors of it."""
    all_ns = max(float(alone_ns.sum()), 1.0)
    scale, count = base_ns / all_ns, len(rows)
    busy_ns = np.array([row.busy_ns for row in rows], np.float64)
    off_ns = busy_ns - alone_ns * busy_ns.sum() / all_ns
    spread = float(np.sqrt((off_ns**2).sum() * count / max(count - 1, 1)))
    sums = {
        name: round(scale * sum(getattr(row, name) for row in rows))
        for name in ("elapsed_ns", "background_base_ns", "delayed_ns")
    }
    return CacheTimes(
        rival=rows[0].rival,
        mode=rows[0].mode,
        capacity_bytes=capacity_bytes,
        error_ns=round(2 * scale * spread),
        **sums,
    )
