"""Windows of a trace that stand for all of it: one from each part of equal length."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.arrow import batches_of, open_table
from tracekit.store import TraceFolder, link, write_batches

LEAST_REQUESTS = 100
MOST_WINDOWS = 8
LEAST_IN_WINDOW = 50
"""Requests; fewer would be mostly what the start of a window costs a disk's head."""
PLACED = ("simulations/best_placement", "simulations/unit_blocks")
NEEDED = ("trace.json", "blocks.parquet", "recommendation.json")


def requests_for(total: int, elapsed_ns: int, *, seconds: float) -> int:
    """Return how many of `total` requests take about so many seconds, by the model's mean."""
    share = seconds * 1e9 / elapsed_ns if elapsed_ns > 0 else 1.0
    return max(min(total, math.ceil(total * min(share, 1.0))), min(total, LEAST_REQUESTS))


def choose_windows(total: int, count: int, *, among: Sequence[range] | None = None) -> list[range]:
    """Return the places of `count` of `total` requests: windows of equal length, ascending.

    The trace is cut into as many parts of equal length, or is in the parts `among`, and the window
    begins anywhere in its part, so that nothing that comes again and again is met each time or
    never. The same each time.
    """
    if among is None:
        if count >= total:
            return [range(total)]
        number = max(1, min(MOST_WINDOWS, count // LEAST_IN_WINDOW))
        parts = [range(n * total // number, (n + 1) * total // number) for n in range(number)]
    else:
        parts = list(among[:: math.ceil(len(among) / max(1, count // LEAST_IN_WINDOW))])
    random = np.random.default_rng(total)
    found = []
    for number, part in enumerate(parts):
        length = (number + 1) * count // len(parts) - number * count // len(parts)
        length = min(length, len(part))
        first = int(random.integers(part.start, part.stop - length, endpoint=True))
        found.append(range(first, first + length))
    return found


def halves(total: int) -> tuple[list[range], list[range]]:
    """Return two lists of parts of a trace, each half of it, that have no request in common.

    Of each two neighbours among parts of equal length one comes into the first list, by chance: on
    the first devices are measured, on the second what that predicts is compared.
    """
    pairs = max(1, min(MOST_WINDOWS, total // (2 * LEAST_IN_WINDOW)))
    ends = [number * total // (2 * pairs) for number in range(2 * pairs + 1)]
    parts = [range(begin, end) for begin, end in pairwise(ends)]
    chance = np.random.default_rng(total).integers(0, 2, pairs).tolist()
    first = [parts[2 * number + side] for number, side in enumerate(chance)]
    second = [parts[2 * number + 1 - side] for number, side in enumerate(chance)]
    return [one for one in first if one], [one for one in second if one]


@contextmanager
def only_windows(
    folder: TraceFolder, windows: Sequence[range], *, place: Path | None = None
) -> Iterator[TraceFolder]:
    """Yield a trace folder of the requests in these windows, with the blocks of the whole trace.

    A window begins as long after the end of the one before it as its first request came after the
    request before that. The folder lies beside the trace, or in `place`, and goes away.
    """
    requests = folder.require("requests", made_by="parse")
    parent = folder.path.parent if place is None else place
    with TemporaryDirectory(prefix=f".{folder.path.name}.", dir=parent) as made:
        part = Path(made)
        for name in (name for name in NEEDED if folder.file(name).exists()):
            link(folder.file(name), part / name)
        (part / "simulations").mkdir()
        for name in (one for one in PLACED if folder.has(one)):
            link(folder.table(name), part / "simulations" / folder.table(name).name)
        with open_table(requests) as source:
            batches = _cut(batches_of(source), windows)
            write_batches(part / "requests.parquet", batches, schema=source.schema_arrow)
        yield TraceFolder(part)


def _cut(batches: Iterator[Any], windows: Sequence[range]) -> Iterator[Any]:
    """Yield the rows of the windows, their times less what lies between windows."""
    begin, last_ns, left_out_ns, kept_ns = 0, None, 0, None
    for batch in batches:
        queue_ns = batch.column("queue_ns")
        for window in windows:
            first = max(window.start - begin, 0)
            behind = min(window.stop - begin, batch.num_rows)
            if first >= behind:
                continue
            if window.start >= begin and kept_ns is not None:
                before_ns = queue_ns[first - 1].as_py() if first > 0 else last_ns
                if before_ns is not None:
                    left_out_ns = before_ns - kept_ns
            part = batch.slice(first, behind - first)
            yield _earlier(part, left_out_ns)
            end_ns = queue_ns[behind - 1].as_py()
            kept_ns = None if end_ns is None else end_ns - left_out_ns
        if batch.num_rows:
            last_ns = queue_ns[batch.num_rows - 1].as_py()
        begin += batch.num_rows
        if begin >= windows[-1].stop:
            return


def _earlier(batch: Any, by_ns: int) -> Any:
    if by_ns == 0:
        return batch
    columns = [
        pc.subtract(column, by_ns) if name.endswith("_ns") else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
