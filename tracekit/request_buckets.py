"""One pass over the requests for all analyses that count times, gaps, jumps and runs.

Each of its tables holds log-linear buckets (analyzers/lib/log_bucket) with their exact counts,
sums, minima and maxima, which the analyses merge: to those that they show, and by role or for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit._native.log_buckets import LogBuckets, Streams

STEPS = ("q2g", "g2i", "q2m", "i2d", "m2d", "q2d", "d2c", "q2c", "wait")
"""Columns of lib/rows_to_count that are times of steps, as in the view steps."""
GAPS = {
    "of_kind": ("queue_ns", ("role", "operation", "is_preflush")),
    "of_role": ("queue_ns", ("role",)),
    "of_data": ("data_queue_ns", ()),
    "of_flush": ("flush_queue_ns", ("role",)),
}
"""Gaps between queue events: the column of lib/rows_to_count, and what both requests have alike."""
CODES = ("device_code", "role_code", "operation_code", "flag_code")
"""Columns of both files that tell the kind of a request."""
LEAST_BITS = {"request_times": 7, "request_gaps": 7, "request_jumps": 0, "request_runs": 0}
"""Tables that the pass makes; each has 2^bits buckets an octave, or more when an analysis wants."""
_OF_TIMES = ("role", "operation", "is_preflush", "has_data", "has_transfer")
_OF_STREAMS = ("device", "role", "operation")

Batches = Iterable[Any]
Numbers = NDArray[np.uint32]


class _Numbering:
    """Numbers for the combinations of some columns of kinds of requests."""

    def __init__(self, kinds: Any, columns: Sequence[str]) -> None:
        rows = [tuple(row[name] for name in columns) for row in kinds.to_pylist()]
        numbers = {row: number for number, row in enumerate(dict.fromkeys(rows))}
        self.of_kind = np.array([numbers[row] for row in rows], np.uint32)
        self.count = max(1, len(numbers))
        fields = [kinds.schema.field(name) for name in columns]
        self.labels = pa.table(
            [pa.array([row[i] for row in numbers], field.type) for i, field in enumerate(fields)],
            [*columns],
        )


class _Pass:
    """What is counted so far."""

    def __init__(self, kinds: Any, octave_bits: Mapping[str, int]) -> None:
        codes = [kinds[name].to_numpy() for name in CODES]
        self.shape = [int(code.max(initial=0)) + 1 for code in codes]
        self.kinds = np.zeros(self.shape, np.uint32)
        self.kinds[tuple(codes)] = np.arange(len(kinds))
        self.buckets = {name: LogBuckets(bits) for name, bits in octave_bits.items()}
        self.times = _Numbering(kinds, _OF_TIMES)
        self.streams = _Numbering(kinds, _OF_STREAMS)
        self.alike = {gap: _Numbering(kinds, columns) for gap, (_, columns) in GAPS.items()}
        self.before = {gap: Streams(alike.count) for gap, alike in self.alike.items()}
        self.ends = Streams(self.streams.count)

    def add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        kind = self.kinds[tuple(columns[name] for name in CODES)]
        group = self.times.of_kind[kind]
        for number, step in enumerate(STEPS):
            first = number * self.times.count
            self.buckets["request_times"].add(group, columns[step], first_group=first)
        for number, (gap, (column, _)) in enumerate(GAPS.items()):
            before = self.before[gap]
            gaps = before.distances(self.alike[gap].of_kind[kind], columns[column])
            first = number * self.times.count
            self.buckets["request_gaps"].add(group, gaps, first_group=first)
        self._add_jumps(self.streams.of_kind[kind], columns)

    def _add_jumps(self, stream: Numbers, columns: Mapping[str, NDArray[Any]]) -> None:
        jumps, runs = self.ends.runs(
            stream, begins=columns["first_sector"], ends=columns["end_sector"]
        )
        direction = stream * np.uint32(2) + (jumps < 0)
        self.buckets["request_jumps"].add(direction.astype(np.uint32), np.abs(jumps))
        self.buckets["request_runs"].add(stream, runs)

    def tables(self) -> dict[str, Any]:
        stream = np.arange(self.streams.count, dtype=np.uint32)
        self.buckets["request_runs"].add(stream, self.ends.latest_runs())
        rows = {name: buckets.read() for name, buckets in self.buckets.items()}
        group = {name: found["group"] for name, found in rows.items()}
        times, gaps, jumps, runs = (group[name] for name in LEAST_BITS)
        of_times = self.times.count
        labels = {
            "request_times": _labels(
                self.times, times % of_times, step=_named(STEPS, times // of_times)
            ),
            "request_gaps": _labels(
                self.times, gaps % of_times, gap=_named([*GAPS], gaps // of_times)
            ),
            "request_jumps": _labels(
                self.streams, jumps // 2, is_backward=pa.array(jumps % 2 == 1)
            ),
            "request_runs": _labels(self.streams, runs),
        }
        return {name: _table(labels[name], rows[name]) for name in LEAST_BITS}


def _named(names: Sequence[str], numbers: Numbers) -> Any:
    return pa.array([*names]).take(pa.array(numbers))


def _labels(numbering: _Numbering, numbers: Numbers, **others: Any) -> Any:
    labels = numbering.labels.take(pa.array(numbers))
    for name, column in others.items():
        labels = labels.append_column(name, column)
    return labels


def _table(labels: Any, rows: NDArray[np.void]) -> Any:
    for name, column in bucket_columns(rows).items():
        labels = labels.append_column(name, column)
    return labels


def bucket_columns(rows: NDArray[np.void]) -> dict[str, Any]:
    """Return the columns of buckets for a table; sums have the 128 bits that the library gives."""
    sums = np.ascontiguousarray(
        np.stack([rows["sum_low"].view(np.int64), rows["sum_high"]], axis=1)
    )
    wide = pa.Array.from_buffers(pa.decimal128(38, 0), len(rows), [None, pa.py_buffer(sums)])
    others = {
        f"bucket_{name}": pa.array(rows[name].astype(np.int64)) for name in ("count", "min", "max")
    }
    return {"bucket_sum": wide, **others}


def count(kinds: Any, batches: Batches, *, octave_bits: Mapping[str, int]) -> dict[str, Any]:
    """Return the tables of LEAST_BITS, of the rows of lib/kinds_of_requests and lib/rows_to_count.

    `octave_bits` is by table.
    """
    counted = _Pass(kinds, octave_bits)
    for batch in batches:
        counted.add(columns_of(batch))
    return counted.tables()


def columns_of(batch: Any) -> dict[str, NDArray[Any]]:
    """Return the columns of a record batch without nulls, where they lie."""
    return {name: batch.column(name).to_numpy() for name in batch.schema.names}
