"""How a trace is cut into windows, and the requests of each as a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tracekit.arrow import Integers, row_count
from tracekit.errors import UsageError
from tracekit.store import TraceFolder
from tracekit.units import HOUR_NS, parse_duration

MANY_HOURS_NS = 3 * HOUR_NS
MOST_WINDOWS = 168
DEFAULT_WINDOWS = 8
NOWHERE = -1


@dataclass(frozen=True)
class Cut:
    """Windows of so many nanoseconds, or of so many requests; the other is None."""

    length_ns: int | None = None
    requests: int | None = None


@dataclass(frozen=True)
class Window:
    """A window, from 1, whose requests come from `start_ns` to before `end_ns`; None: no time."""

    number: int
    start_ns: int | None
    end_ns: int | None
    requests: int


def choose_cut(folder: TraceFolder, wanted: str | None = None) -> Cut:
    """Return how to cut: as wanted, by the hour where a trace lasts three, else 8 of equal counts.

    `wanted` is a number of windows, all of which have as many requests, or how long a window is.
    UsageError unless that makes 1 to 168 windows.
    """
    duration_ns = max(folder.info.clock.duration_ns, 1)
    if wanted is not None and not wanted.strip().isdigit():
        return Cut(length_ns=_length(duration_ns, parse_duration(wanted, option="--windows")))
    if wanted is None and duration_ns >= MANY_HOURS_NS:
        return Cut(length_ns=max(HOUR_NS, -(-duration_ns // MOST_WINDOWS)))
    count = DEFAULT_WINDOWS if wanted is None else int(wanted)
    if not 0 < count <= MOST_WINDOWS:
        raise UsageError(
            f"--windows {count}: not between 1 and {MOST_WINDOWS}",
            hint="write a number of windows, or how long one is, such as 10min",
        )
    rows = row_count(folder.require("requests", made_by="parse"))
    return Cut(requests=max(-(-rows // count), 1))


def _length(duration_ns: int, asked_ns: int) -> int:
    if asked_ns <= 0:
        raise UsageError("--windows: a window lasts longer than nothing")
    if duration_ns > MOST_WINDOWS * asked_ns:
        least_s = duration_ns / MOST_WINDOWS / 1e9
        raise UsageError(
            f"--windows makes more than {MOST_WINDOWS} windows",
            hint=f"choose one of {least_s:,.3g}s or longer",
        )
    return asked_ns


@dataclass
class Cutter:
    """Says in which window each request is, batch by batch; times are those of queueing or issue.

    By time, a request before one that came earlier in the table is in that one's window, and one
    without a time is left out.
    """

    cut: Cut
    timeless: int = 0
    _rows: int = 0
    _number: int = 0
    _times: dict[int, tuple[int, int]] = field(default_factory=dict)
    _counts: dict[int, int] = field(default_factory=dict)

    def parts(self, time_ns: Integers) -> Iterator[tuple[int, int, int]]:
        """Yield (window from 0, first row, row after its last) for a batch; times -1: unknown."""
        numbers = self._numbers(time_ns)
        edges = np.flatnonzero(np.diff(numbers)) + 1
        for begin, end in zip([0, *edges.tolist()], [*edges.tolist(), len(numbers)], strict=True):
            number = int(numbers[begin]) if end > begin else NOWHERE
            if number == NOWHERE:
                continue
            known = time_ns[begin:end][time_ns[begin:end] >= 0]
            if len(known):
                low, high = self._times.get(number, (int(known.min()), 0))
                ends = min(low, int(known.min())), max(high, int(known.max()) + 1)
                self._times[number] = ends
            self._counts[number] = self._counts.get(number, 0) + end - begin
            yield number, begin, end

    def _numbers(self, time_ns: Integers) -> Integers:
        if self.cut.length_ns is None:
            rows = self._rows + np.arange(len(time_ns))
            self._rows += len(time_ns)
            return rows // (self.cut.requests or 1)
        is_known = time_ns >= 0
        self.timeless += int(np.count_nonzero(~is_known))
        found = np.where(is_known, time_ns // self.cut.length_ns, self._number)
        found = np.maximum.accumulate(np.maximum(found, self._number))
        self._number = int(found[-1]) if len(found) else self._number
        return np.where(is_known, found, NOWHERE)

    def window(self, number: int) -> Window:
        """Return a window as far as its requests have been seen."""
        length_ns = self.cut.length_ns
        if length_ns is not None:
            ends: tuple[int | None, int | None] = number * length_ns, (number + 1) * length_ns
        else:
            ends = self._times.get(number, (None, None))
        return Window(number + 1, *ends, self._counts[number])


@contextmanager
def windows(folder: TraceFolder, cut: Cut) -> Iterator[tuple[list[tuple[Window, Path]], int]]:
    """Yield the windows that have requests, and how many requests without a time are left out.

    A request belongs to the window in which it was queued, or else issued; one that was merged into
    a request of another window is charged there on its own. Tables lie beside the trace and go.
    """
    requests = folder.require("requests", made_by="parse")
    with TemporaryDirectory(prefix=f".{folder.path.name}.", dir=folder.path.parent) as place:
        yield _cut(requests, Path(place), cut)


def _cut(requests: Path, place: Path, cut: Cut) -> tuple[list[tuple[Window, Path]], int]:
    writers: dict[int, Any] = {}
    cutter = Cutter(cut)
    with pq.ParquetFile(requests) as source:
        for batch in source.iter_batches():
            time_ns = pc.coalesce(batch.column("queue_ns"), batch.column("issue_ns"))
            known = np.asarray(pc.fill_null(time_ns, NOWHERE))
            for number, begin, end in cutter.parts(known):
                if number not in writers:
                    file = place / f"{number}.parquet"
                    writers[number] = pq.ParquetWriter(
                        file, source.schema_arrow, compression="zstd"
                    )
                writers[number].write_batch(batch.slice(begin, end - begin))
    for writer in writers.values():
        writer.close()
    found = [(cutter.window(number), place / f"{number}.parquet") for number in sorted(writers)]
    return found, cutter.timeless
