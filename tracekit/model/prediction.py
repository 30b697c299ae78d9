"""The first requests of a trace as a separate trace, and their time by the placement model."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tracekit.arrow import open_table
from tracekit.errors import InputError, UsageError
from tracekit.metadata import Record
from tracekit.model.answer import Answer, Recommendation, charged_trace
from tracekit.model.gain_range import placement_ps
from tracekit.model.placement import to_ns
from tracekit.store import TraceFolder, write_batches

LEAST_REQUESTS = 100
NEEDED = ("trace.json", "blocks.parquet", "recommendation.json")


class Prediction(Record):
    """Elapsed time by the model, requests one after the other; with queueing the mean response."""

    base_ns: int
    placed_ns: int
    gain_ratio: float


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
            _give(folder.file(name), part / name)
        with open_table(requests) as source:
            batches = _first(source.iter_batches(), count)
            write_batches(part / "requests.parquet", batches, schema=source.schema_arrow)
        yield TraceFolder(part)


def _give(source: Path, target: Path) -> None:
    """Give a file a second name; copy it where the system has none for it."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def _first(batches: Iterator[Any], left: int) -> Iterator[Any]:
    for batch in batches:
        yield batch.slice(0, min(left, batch.num_rows))
        left -= batch.num_rows
        if left <= 0:
            return


def predict(folder: TraceFolder, advice: Recommendation, *, answer: Answer) -> Prediction:
    """Return the time of a folder's requests, without NVM and with an answer's blocks on it.

    Raise UsageError where devices of the trace that the model has apart would be emulated as one.
    """
    trace = charged_trace(folder, advice)
    names = trace.touched.device_names
    if trace.needs_events and len(names) > 1:
        raise UsageError(
            f"the trace is of {len(names)} devices, each with a head or queue of its own in the"
            " model, and the replay has one base device",
            hint="run recommend with a base without rpm, and --queueing serial",
        )
    base_ps, placed_ps = placement_ps(trace, answer.blocks, coverage=advice.coverage)
    if base_ps <= 0:
        raise InputError(
            f"{folder.path}: none of the requests to replay costs a device any time",
            hint="raise --duration",
        )
    base_ns, placed_ns = to_ns(base_ps), to_ns(placed_ps)
    return Prediction(
        base_ns=base_ns, placed_ns=placed_ns, gain_ratio=1 - placed_ns / base_ns if base_ns else 0.0
    )


def span_ns(requests: Path) -> int:
    """Return the time from the first request to the last, by the file's own statistics."""
    with open_table(requests) as source:
        column = source.schema_arrow.get_field_index("queue_ns")
        groups = [
            source.metadata.row_group(number).column(column).statistics
            for number in range(source.metadata.num_row_groups)
        ]
    known = [group for group in groups if group is not None and group.has_min_max]
    return max((int(g.max) for g in known), default=0) - min((int(g.min) for g in known), default=0)
