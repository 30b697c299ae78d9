"""Log-linear histograms, and distances in streams: `log_buckets.h` and `streams.h` for numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracekit._native.library import Owned, constant, dtype_of, struct

NONE = constant("LOG_BUCKETS_NONE")
"""Stands for a value, a place or a distance that there is not."""
BUCKET = dtype_of("struct log_bucket")


class LogBuckets(Owned):
    """Histograms of any number of groups, with 2^octave_bits buckets an octave."""

    kind = "tk_log_buckets"
    failure = "values cannot be counted"

    def __init__(self, octave_bits: int) -> None:
        super().__init__(octave_bits)

    def add(
        self, groups: NDArray[np.uint32], values: NDArray[np.int64], *, first_group: int = 0
    ) -> None:
        """Count the values, each for its group behind the first; NONE is not counted."""
        self._check(self._call("add", first_group, groups, values, len(values)))

    def read(self) -> NDArray[np.void]:
        """Return the buckets that have values (BUCKET), in no order.

        Their sums have 128 bits, in two's complement.
        """
        found = np.empty(self._call("count"), BUCKET)
        self._call("read", found)
        return found


class Streams(Owned):
    """Streams of items, each with a begin and an end."""

    kind = "tk_streams"
    failure = "streams cannot be followed"

    def __init__(self, count: int) -> None:
        self._count = count
        super().__init__(count)

    def distances(
        self, streams: NDArray[np.uint32], begins: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return how far each item is from the one before in its stream; it ends where it begins.

        NONE is no item, and the distance of the first of a stream. TracekitError for a stream that
        there is not.
        """
        distances = np.empty(len(begins), np.int64)
        batch = struct("streams_batch", count=len(begins), streams=streams, begins=begins)
        self._check(self._call("add", batch, distances, None))
        return distances

    def runs(
        self, streams: NDArray[np.uint32], *, begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return distances from the end before, and how many items each run has that ends here.

        A run is of items that begin where the one before ended. NONE as in `distances`; of runs it
        is for items before which none ends. TracekitError for a stream that there is not.
        """
        distances, runs = np.empty((2, len(begins)), np.int64)
        columns = {"streams": streams, "begins": begins, "ends": ends}
        batch = struct("streams_batch", count=len(begins), **columns)
        self._check(self._call("add", batch, distances, runs))
        return distances, runs

    def latest_runs(self) -> NDArray[np.int64]:
        """Return how many items the latest run of each stream has."""
        runs = np.empty(self._count, np.int64)
        self._call("runs", runs)
        return runs
