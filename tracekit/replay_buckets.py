"""One pass over the completions of all replays for the analyses of replays, part by part.

Its tables hold log-linear buckets as those of `request_buckets`, which the analyses merge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit._native.log_buckets import NONE, LogBuckets
from tracekit.request_buckets import bucket_columns

MEASURES = ("late", "service", "response", "traced")
"""Columns of lib/replayed_rows_to_count that are times, as in the view replay_times."""
OUTCOMES = ("has_error", "intended_ns", "complete_ns")
LEAST_BITS = {"replay_measures": 7, "replay_windows": 5, "replay_lengths": 5, "replay_outcomes": 0}
"""Tables that the pass makes; each has 2^bits buckets an octave, or more when an analysis wants."""
WINDOW_COUNT = 100
"""Equal parts of a run, unless an analysis wants others."""
PART_REQUESTS = 1 << 21
"""Requests of a part: their join with the completions takes about 100 MiB."""
_PARTS = {
    "replay_measures": (MEASURES, ("replay", "role", "operation")),
    "replay_windows": (("service",), ("replay", "operation")),
    "replay_lengths": (("length_bytes",), ("replay", "operation")),
    "replay_outcomes": (OUTCOMES, ("replay", "status", "operation")),
}
"""What each table counts, and by what."""
_WITH_WINDOWS = ("replay_windows", "replay_lengths")

Columns = Mapping[str, NDArray[Any]]


class Pass:
    """What is counted so far of the completions of `extent`, the row of lib/replays_to_count."""

    def __init__(
        self, extent: Mapping[str, Any], *, octave_bits: Mapping[str, int], window_count: int
    ) -> None:
        lists = ("replays", "statuses", "roles", "operations")
        names = ("replay", "status", "role", "operation")
        self._words: dict[str, list[Any]] = {
            name: [None, *(extent[one] or ())] for name, one in zip(names, lists, strict=True)
        }
        ends = [0, *(extent["last_submits_ns"] or ())]
        self._window_count = window_count
        self._lengths_ns = np.array([end // window_count + 1 for end in ends], np.int64)
        self._buckets = {name: LogBuckets(bits) for name, bits in octave_bits.items()}

    def add(self, columns: Columns) -> None:
        """Count rows of lib/replayed_rows_to_count."""
        lengths_ns = self._lengths_ns[columns["replay_number"]]
        windows = np.where(columns["submit_ns"] == NONE, 0, columns["submit_ns"]) // lengths_ns
        for name, (series, by) in _PARTS.items():
            groups = self._groups(columns, by)
            if name in _WITH_WINDOWS:
                groups = groups * self._window_count + windows
            for number, one in enumerate(series):
                first = number * self._size(by)
                values = columns[one].astype(np.int64, copy=False)
                self._buckets[name].add(groups.astype(np.uint32), values, first_group=first)

    def _groups(self, columns: Columns, by: Sequence[str]) -> NDArray[np.int64]:
        groups = np.zeros(len(columns["submit_ns"]), np.int64)
        for name in by:
            groups = groups * len(self._words[name]) + columns[f"{name}_number"]
        return groups

    def _size(self, by: Sequence[str]) -> int:
        return int(np.prod([len(self._words[name]) for name in by]))

    def tables(self) -> dict[str, Any]:
        """Return the tables of LEAST_BITS."""
        return {name: self._table(name) for name in _PARTS}

    def _table(self, name: str) -> Any:
        (series, by), rows = _PARTS[name], self._buckets[name].read()
        numbers = rows["group"].astype(np.int64)
        columns: dict[str, Any] = {}
        if name in _WITH_WINDOWS:
            columns["window_number"] = pa.array(numbers % self._window_count)
            columns["window_count"] = pa.array(np.full(len(rows), self._window_count))
            numbers //= self._window_count
        else:
            columns["measure"] = pa.array(series).take(pa.array(numbers // self._size(by)))
            numbers %= self._size(by)
        for word in reversed(by):
            words = self._words[word]
            columns[word] = pa.array(words, pa.string()).take(pa.array(numbers % len(words)))
            if word == "replay" and name in _WITH_WINDOWS:
                columns["window_length_ns"] = pa.array(self._lengths_ns[numbers % len(words)])
            numbers //= len(words)
        return pa.table(columns | bucket_columns(rows))


def parts(extent: Mapping[str, Any]) -> Iterable[tuple[int, int]]:
    """Return the first and last request_id of each part of the requests that were replayed."""
    if extent["first_id"] is None:
        return ()
    starts = range(extent["first_id"] // PART_REQUESTS, extent["last_id"] // PART_REQUESTS + 1)
    return [(part * PART_REQUESTS, (part + 1) * PART_REQUESTS - 1) for part in starts]
