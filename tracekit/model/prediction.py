"""The first requests of a trace as a trace of their own, and what the model says of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from tracekit.devices import Profile
from tracekit.errors import InputError, UsageError
from tracekit.model.answer import to_ns
from tracekit.model.block_orders import TouchedBlocks, read_blocks
from tracekit.model.event_simulation import needs_walk, walk_placement
from tracekit.model.placement import sweep
from tracekit.store import TraceFolder, write_batches
from tracekit.units import BLOCK_BYTES

LEAST_REQUESTS = 100
NEEDED = ("trace.json", "blocks.parquet", "recommendation.json")


@dataclass(frozen=True)
class Prediction:
    """Elapsed time by the model, requests one after the other; with queueing the mean response."""

    base_ns: int
    placed_ns: int

    @property
    def gain_ratio(self) -> float:
        """Share of the base's time that the placement saves; 0 when there is none."""
        return 1 - self.placed_ns / self.base_ns if self.base_ns else 0.0


def requests_for(total: int, elapsed_ns: int, *, seconds: float) -> int:
    """Return how many of `total` requests take about so many seconds, by the model's mean."""
    share = seconds * 1e9 / elapsed_ns if elapsed_ns > 0 else 1.0
    return max(min(total, math.ceil(total * min(share, 1.0))), min(total, LEAST_REQUESTS))


@contextmanager
def first_requests(folder: TraceFolder, count: int) -> Iterator[TraceFolder]:
    """Yield a trace folder of the first `count` requests, with the blocks of the whole trace.

    It lies beside the trace and goes away.
    """
    requests = folder.require("requests", made_by="parse")
    with TemporaryDirectory(prefix=f".{folder.path.name}.", dir=folder.path.parent) as place:
        part = Path(place)
        for name in NEEDED:
            (part / name).symlink_to((folder.path / name).resolve())
        _write_first(requests, part / "requests.parquet", count)
        yield TraceFolder(part)


def _write_first(requests: Path, table: Path, count: int) -> None:
    def batches() -> Iterator[Any]:
        left = count
        for batch in source.iter_batches():
            yield batch.slice(0, min(left, batch.num_rows))
            left -= batch.num_rows
            if left <= 0:
                return

    with pq.ParquetFile(requests) as source:
        write_batches(table, batches(), schema=source.schema_arrow)


def predict(
    folder: TraceFolder, advice: Mapping[str, Any], *, blocks: Mapping[str, int]
) -> Prediction:
    """Return what the placement model says of a folder's requests, with so many blocks on NVM.

    Raise UsageError where devices of the trace that the model has apart would be emulated as one.
    """
    base, nvm = (Profile(**profile) for profile in advice["profiles"])
    touched = read_blocks(folder.table("blocks"))
    is_open = is_queueing(advice)
    if not needs_walk((base, nvm), is_open=is_open):
        return _predict_sums(folder, advice, (touched, base, nvm), blocks=blocks)
    if len(touched.device_names) > 1:
        raise UsageError(
            f"the trace is of {len(touched.device_names)} devices, each with a head or queue of its"
            " own in the model, and the replay has one base device",
            hint="run recommend with a base without rpm, and --queueing serial",
        )
    base_ps, placed_ps = walk_placement(
        (folder.table("requests"), touched),
        {role: count for role, count in blocks.items() if count},
        coverage=advice["coverage"],
        devices=(base, nvm),
        is_issued=advice["level"] == "issued",
        is_open=is_open,
    )
    _check_time(folder, base_ps)
    return Prediction(to_ns(base_ps), to_ns(placed_ps))


def is_queueing(advice: Mapping[str, Any]) -> bool:
    """Say whether the recommendation compares response times of requests that queue."""
    return bool(advice.get("queueing", "serial") == "open")


def _predict_sums(
    folder: TraceFolder,
    advice: Mapping[str, Any],
    model: tuple[TouchedBlocks, Profile, Profile],
    *,
    blocks: Mapping[str, int],
) -> Prediction:
    """Add the costs up: no request's depends on another's."""
    touched, base, nvm = model
    points = np.unique(np.array([0, *blocks.values()], np.int64))
    curves = sweep(
        folder.table("requests"),
        touched,
        points=points,
        devices=(base, nvm),
        is_issued=advice["level"] == "issued",
    )
    change_ps = sum(
        int(curves.change_ps[advice["coverage"], role][np.searchsorted(points, count)])
        for role, count in blocks.items()
        if count
    )
    _check_time(folder, curves.base_total_ps)
    return Prediction(to_ns(curves.base_total_ps), to_ns(curves.base_total_ps + change_ps))


def _check_time(folder: TraceFolder, base_ps: int) -> None:
    if base_ps <= 0:
        raise InputError(
            f"{folder.path}: none of the requests to replay costs a device any time",
            hint="raise --duration",
        )


def span_ns(requests: Path) -> int:
    """Return the time from the first request to the last, by the file's own statistics."""
    with pq.ParquetFile(requests) as source:
        column = source.schema_arrow.get_field_index("queue_ns")
        groups = [
            source.metadata.row_group(number).column(column).statistics
            for number in range(source.metadata.num_row_groups)
        ]
    known = [group for group in groups if group is not None and group.has_min_max]
    return max((int(g.max) for g in known), default=0) - min((int(g.min) for g in known), default=0)


def blocks_of(answer: Mapping[str, Any]) -> dict[str, int]:
    """Return the blocks of each role that an answer puts on NVM."""
    return {role: answer[f"{role}_bytes"] // BLOCK_BYTES for role in ("fs", "journal", "swap")}
