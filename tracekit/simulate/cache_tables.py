"""The tables of a cache simulation, from its counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tracekit.schema import ROLES
from tracekit.schema.cache import CACHE_CURVE, CACHE_PLANE, CACHE_POLICIES
from tracekit.simulate.cache_grid import Grid
from tracekit.simulate.cache_passes import Passed
from tracekit.simulate.cache_plane import Devices, Pair
from tracekit.simulate.cache_policies import PolicyResult
from tracekit.simulate.hit_counts import HitCounts

OPERATION_ROWS = {"all": (0, 1), "read": (0,), "write": (1,)}


@dataclass(frozen=True)
class PlaneCell:
    """A pair of sizes in pages; `budget` is the flash of the same cost on a line of equal cost."""

    pcm: int
    flash: int
    budget: int | None
    pair: Pair


class Arrangement(Protocol):
    """The options that say what two levels do."""

    @property
    def levels(self) -> str: ...  # noqa: D102 - named in simulate/cache.py
    @property
    def level_policies(self) -> tuple[str, str]: ...  # noqa: D102
    @property
    def level_writes(self) -> str: ...  # noqa: D102


def curve_table(passed: Passed, grid: Grid, *, page_bytes: int) -> Any:
    """Return the miss ratio curves: one cache for all by role, one for each role, and by device."""
    import pyarrow as pa

    rows = list(_curve_rows("shared", passed.shared, grid, page_bytes))
    for role, counts in passed.own.items():
        rows += _curve_rows("own", counts, grid, page_bytes, only=role)
    rows = [{**row, "scope": "all", "device": None} for row in rows]
    for volume in passed.volumes:
        for cache, counts in (("shared", volume.shared), ("own", volume.own)):
            found = _curve_rows(cache, counts, grid, page_bytes, only="all")
            scope = "others" if volume.name is None else "one"
            rows += [{**row, "scope": scope, "device": volume.name} for row in found]
    return pa.Table.from_pylist(rows, CACHE_CURVE)


def _curve_rows(
    cache: str, counts: HitCounts, grid: Grid, page_bytes: int, *, only: str = ""
) -> Iterator[dict[str, Any]]:
    """Yield rows of the counts' rows by role; `only` all are all that there are."""
    import numpy as np

    every = {"all": list(range(len(counts.references) // 2))}
    every |= {name: [index] for index, name in enumerate(ROLES)}
    chosen = {only: every[only]} if only else every
    columns = np.searchsorted(counts.sizes, grid.curve)
    for role, indexes in chosen.items():
        for operation, offsets in OPERATION_ROWS.items():
            rows = [2 * index + offset for index in indexes for offset in offsets]
            references = counts.references[rows].sum()
            if not references:
                continue
            low, high = counts.bounds(rows)
            ratio = counts.miss_ratios(rows)
            for size, column in zip(grid.curve, columns.tolist(), strict=True):
                yield {
                    "cache": cache,
                    "role": role,
                    "operation": operation,
                    "capacity_bytes": size * page_bytes,
                    "references": int(references),
                    "miss_ratio": float(ratio[column]),
                    "miss_ratio_low": float(low[column]),
                    "miss_ratio_high": float(high[column]),
                }


def policies_table(results: Sequence[PolicyResult], writes: str, *, page_bytes: int) -> Any:
    """Return what each policy kept at each size."""
    import pyarrow as pa

    rows = []
    for result in results:
        counts = result.counts
        reads, read_hits = sum(counts.references[0::2]), sum(counts.hits[0::2])
        written, write_hits = sum(counts.references[1::2]), sum(counts.hits[1::2])
        rows.append(
            {
                "policy": result.policy,
                "writes": writes,
                "capacity_bytes": result.capacity * page_bytes,
                "reads": reads,
                "read_hits": read_hits,
                "write_references": written,
                "write_hits": write_hits,
                "miss_ratio": 1 - (read_hits + write_hits) / (reads + written),
                "read_miss_ratio": 1 - read_hits / reads if reads else None,
                "fills": counts.fills,
                "backend_reads": counts.backend_reads,
                "backend_writes": counts.backend_writes,
                "dirty_pages": counts.dirty,
            }
        )
    return pa.Table.from_pylist(rows, CACHE_POLICIES)


def plane_table(cells: Sequence[PlaneCell], devices: Devices, *, arrangement: Arrangement) -> Any:
    """Return latency and time of each pair of sizes."""
    import pyarrow as pa

    page = devices.page_bytes
    rows = [
        {
            "levels": arrangement.levels,
            "pcm_policy": arrangement.level_policies[0],
            "flash_policy": arrangement.level_policies[1],
            "writes": arrangement.level_writes,
            "pcm_bytes": cell.pcm * page,
            "flash_bytes": cell.flash * page,
            "even_flash_bytes": None if cell.budget is None else cell.budget * page,
            "price_in_flash_bytes": round((cell.pcm * devices.price_ratio + cell.flash) * page),
            "reads": round(cell.pair.reads),
            "pcm_read_hits": round(cell.pair.pcm_read_hits),
            "flash_read_hits": round(cell.pair.flash_read_hits),
            "pcm_writes": round(cell.pair.pcm_writes),
            "flash_writes": round(cell.pair.flash_writes),
            "base_writes": round(cell.pair.base_writes),
            "dirty_pages": round(cell.pair.dirty_pages),
            "read_latency_avg_ns": cell.pair.read_latency_ns(devices),
            "io_time_ns": cell.pair.io_time_ns(devices),
        }
        for cell in cells
    ]
    return pa.Table.from_pylist(rows, CACHE_PLANE)
