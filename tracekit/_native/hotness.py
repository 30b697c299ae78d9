"""Access counts of 4 KiB blocks: `replayer/model/hotness.h` for numpy."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracekit._native.library import (
    Owned,
    array,
    call,
    columns_for,
    constant,
    dtype_of,
    enumerators,
    out,
    plain,
    struct,
)

READ = constant("HOTNESS_READ")
WRITE = constant("HOTNESS_WRITE")
IGNORED = constant("HOTNESS_IGNORED")
NO_TIME = constant("HOTNESS_NO_TIME")
ALL_KEYS = (0, (1 << 64) - 1)
MAX_DEVICES = constant("HOTNESS_MAX_DEVICES")
MIN_BUDGET_BYTES = constant("HOTNESS_MIN_BUDGET_BYTES")
RECORD = dtype_of("struct hotness_record")
INTERVALS = enumerators("volume_interval", "VOLUME_")[:-1]
"""Kinds of intervals: of accesses to a block, and of a volume's requests (arrival)."""
BUCKETS = constant("VOLUME_BUCKETS")
OCTAVE_BITS = constant("VOLUME_OCTAVE_BITS")


@dataclass(frozen=True)
class Requests:
    """Columns of requests in queue order, as contiguous numpy arrays of equal length."""

    sector: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    time_ns: NDArray[np.int64]  # NO_TIME where a request has none
    device: NDArray[np.uint16]
    operation: NDArray[np.uint8]  # READ, WRITE or IGNORED
    role: NDArray[np.uint8]


@dataclass(frozen=True)
class Totals:
    """What one range of blocks came to."""

    blocks: int
    touches: int
    mixed_blocks: int  # touched by requests of several roles
    requests: int  # reads and writes that counted, whatever the range
    impossible: int  # reads and writes with a place or length that no disk has
    memory_bytes: int
    clock_ns: int


@dataclass
class Volume:
    """What the requests of a device came to: counts that add up."""

    counts: Mapping[str, int]  # reads, writes, random_reads and random_writes
    intervals: NDArray[np.uint64]  # by kind and bucket; the last cell: a time is not known


class BudgetUsedUpError(Exception):
    """The blocks of the range do not fit into the budget: cut the range and start it again.

    `done` is the number of requests of the batch that were counted.
    """

    def __init__(self, done: int) -> None:
        super().__init__(done)
        self.done = done


class Hotness(Owned):
    """One counter of block accesses."""

    kind = "tk_hotness"
    failure = "counting block accesses failed"

    def __init__(
        self, budget_bytes: int, *, window_ns: int, window_count: int, role_count: int
    ) -> None:
        self._shape = (window_count, role_count)
        super().__init__(
            budget_bytes,
            window_ns,
            window_count,
            role_count,
            refusal=f"cannot count block accesses in {budget_bytes} bytes, of at least"
            f" {MIN_BUDGET_BYTES}, and {window_count} windows of {window_ns} ns",
        )

    def start(self, first_key: int, last_key: int) -> None:
        """Forget everything and count the blocks of this range of keys, its end included."""
        self._call("range", first_key, last_key)

    def add(self, requests: Requests) -> None:
        """Count a batch; raise BudgetUsedUpError when the range does not fit."""
        columns = columns_for("hotness_batch", requests)
        if len({len(column) for column in columns.values()}) != 1:
            raise ValueError("the columns of a batch differ in length")
        batch = struct("hotness_batch", count=len(requests.sector), **columns)
        done = out("uint64_t")
        status = self._call("add", batch, done)
        if status == -errno.ENOSPC:
            raise BudgetUsedUpError(done[0])
        self._check(status)

    def totals(self) -> Totals:
        """Return the counts of the range so far."""
        return Totals(**self._read("totals", "hotness_totals"))

    def windows(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return distinct and never before touched blocks, as arrays by window and role."""
        distinct, fresh = np.empty(self._shape, np.uint64), np.empty(self._shape, np.uint64)
        self._call("windows", distinct, fresh)
        return distinct, fresh

    def volume(self, device: int) -> Volume | None:
        """Return what a device came to in the range, or None where it has no read or write.

        Requests and their arrivals are counted in the range from key 0 on.
        """
        counts = struct("volume_counts")
        intervals = np.zeros((len(INTERVALS), BUCKETS + 1), np.uint64)
        if not self._call("volume", device, counts, intervals):
            return None
        return Volume(plain(counts), intervals)

    def cuts(self, count: int) -> list[int]:
        """Return first keys that part the blocks found so far into `count` ranges; ends adding."""
        keys = array("uint64_t", max(1, count - 1))
        return list(keys[0 : self._call("cuts", count, keys)])

    def export(self, capacity: int = 1 << 16) -> Iterator[NDArray[np.void]]:
        """Yield arrays of RECORD in the order of device and block; ends adding.

        Each array is valid until the next one.
        """
        records = np.empty(capacity, RECORD)
        while count := self._call("export", records, capacity):
            yield records[:count]


def key_of(device: int, block: int) -> int:
    """Return the key of a device's block, rounded down to the 64 blocks that stay together."""
    return int(call("tk_hotness_key", device, block))
