"""The requests of each window of a trace, as tables of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tracekit.errors import UsageError
from tracekit.store import TraceFolder

HOUR_NS = 3600 * 10**9
MOST_WINDOWS = 168
DEFAULT_WINDOWS = 8


@dataclass(frozen=True)
class Window:
    """From `start_ns` to before `end_ns`; `table` holds its requests."""

    start_ns: int
    end_ns: int
    table: Path
    requests: int


def window_length(duration_ns: int, asked_ns: int | None) -> int:
    """Return how long a window is: as asked, an hour of a trace of hours, else an eighth of it.

    UsageError when that makes more than 168 windows, or none.
    """
    if asked_ns is not None and asked_ns <= 0:
        raise UsageError("--window: a window lasts longer than nothing")
    if asked_ns is None:
        is_long = duration_ns >= 3 * HOUR_NS
        asked_ns = HOUR_NS if is_long else max(-(-duration_ns // DEFAULT_WINDOWS), 1)
        if duration_ns > MOST_WINDOWS * asked_ns:
            asked_ns = -(-duration_ns // MOST_WINDOWS)
    if duration_ns > MOST_WINDOWS * asked_ns:
        least_s = duration_ns / MOST_WINDOWS / 1e9
        raise UsageError(
            f"--window makes more than {MOST_WINDOWS} windows",
            hint=f"choose one of {least_s:,.3g}s or longer",
        )
    return asked_ns


@contextmanager
def windows(folder: TraceFolder, length_ns: int) -> Iterator[tuple[list[Window], int]]:
    """Yield the windows that have requests, and how many requests have no time at all.

    A request belongs to the window in which it was queued, or else issued; one that was merged into
    a request of another window is charged there on its own. Tables lie beside the trace and go.
    """
    requests = folder.require("requests", made_by="parse")
    with TemporaryDirectory(prefix=f".{folder.path.name}.", dir=folder.path.parent) as place:
        yield _cut(requests, Path(place), length_ns)


def _cut(requests: Path, place: Path, length_ns: int) -> tuple[list[Window], int]:
    import numpy as np
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    writers: dict[int, Any] = {}
    counts: dict[int, int] = {}
    timeless = 0
    with pq.ParquetFile(requests) as source:
        for batch in source.iter_batches():
            time_ns = pc.coalesce(batch.column("queue_ns"), batch.column("issue_ns"))
            timeless += time_ns.null_count
            known = batch.filter(pc.is_valid(time_ns))
            number = np.asarray(pc.drop_null(time_ns)) // length_ns
            for one in np.unique(number):
                part = known.filter(number == one)
                key = int(one)
                if key not in writers:
                    file = place / f"{key}.parquet"
                    writers[key] = pq.ParquetWriter(file, source.schema_arrow, compression="zstd")
                writers[key].write_batch(part)
                counts[key] = counts.get(key, 0) + part.num_rows
    for writer in writers.values():
        writer.close()
    found = [
        Window(key * length_ns, (key + 1) * length_ns, place / f"{key}.parquet", counts[key])
        for key in sorted(writers)
    ]
    return found, timeless
