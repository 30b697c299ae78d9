"""Counts the accesses of every 4 KiB block and writes `blocks` and `working_set`.

What counts: reads and writes as they were queued. Flushes touch no block; discards and zeroing
move no data, so they count for no block either.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit._native import hotness as native
from tracekit.arrow import codes, ints, number_column, open_table, text_column
from tracekit.classify.regions import OnRows, batches, first_event_ns, ignore_rows, time_columns
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.store import write_batches, write_table
from tracekit.tables import BLOCKS, INTERVALS, ROLES, VOLUMES, WORKING_SET

TEMPERATURES = ("hot", "warm", "cold")
WARM_MIN_TOUCHES = 2
RULE = (
    "hot: the most touched blocks that carry hot_traffic_ratio of all touches, each touched at"
    " least twice and hot_factor times as often as the mean block; warm: touched more than once;"
    " cold: touched once"
)


@dataclass(frozen=True)
class TemperatureRule:
    """The two adjustable numbers of the rule."""

    hot_traffic_ratio: float = 0.5  # of all touches, above 0 and at most 1
    hot_factor: float = 2.0  # times the mean touches of a block

    def __post_init__(self) -> None:
        """Refuse numbers that no share or factor can have."""
        if not 0 < self.hot_traffic_ratio <= 1:
            raise UsageError(
                f"the share of touches that hot blocks carry is {self.hot_traffic_ratio}",
                hint="--hot takes a number above 0 and at most 1",
            )
        if not (math.isfinite(self.hot_factor) and self.hot_factor >= 0):
            raise UsageError(
                f"the factor that makes a block hot is {self.hot_factor}",
                hint="--hot-factor takes a number from 0",
            )


class TouchHistogram:
    """How many blocks were touched how often; small, since n counts need n squared touches."""

    def __init__(self) -> None:
        self._blocks = Counter[int]()

    def add(self, touches: NDArray[np.uint64]) -> None:
        """Add the touches of some blocks."""
        values, blocks = np.unique(touches, return_counts=True)
        self._blocks.update(dict(zip(values.tolist(), blocks.tolist(), strict=True)))

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return self._blocks.total()

    @property
    def touches(self) -> int:
        """The number of touches of all blocks."""
        return sum(value * count for value, count in self._blocks.items())

    def hot_min_touches(self, rule: TemperatureRule) -> int:
        """Return the touches from which on a block is hot; 2 when there are no blocks."""
        wanted = rule.hot_traffic_ratio * self.touches
        carried = 0
        threshold = WARM_MIN_TOUCHES
        for value in sorted(self._blocks, reverse=True):
            threshold = value
            carried += value * self._blocks[value]
            if carried >= wanted:
                break
        mean = self.touches / self.blocks if self.blocks else 0
        return max(WARM_MIN_TOUCHES, threshold, math.ceil(rule.hot_factor * mean))


def temperature_codes(touches: NDArray[np.uint64], hot_min_touches: int) -> NDArray[np.int8]:
    """Return the index in TEMPERATURES of each block."""
    codes = np.full(len(touches), 2, np.int8)
    codes[touches >= WARM_MIN_TOUCHES] = 1
    codes[touches >= hot_min_touches] = 0
    return codes


COLUMNS = ("device", "sector", "length_bytes", "operation", "role")
DEFAULT_BUDGET_BYTES = 256 << 20
WINDOWS_WANTED = 200
MAX_WINDOWS = 1_000_000
# Distinct blocks rarely grow faster than linearly, so that ranges cut this much smaller than the
# part of the trace that fitted suggests are seldom cut again.
FILL_RATIO = 0.7
MAX_PIECES = 64
# What is not known to be a write counts as a read.
OPERATION_CODES = {"read": native.READ, "write": native.WRITE, "": native.READ}
ROLE_CODES = {role: code for code, role in enumerate(ROLES)}


@dataclass(frozen=True)
class Windows:
    """Equal pieces of the trace's time, from 0."""

    window_ns: int
    count: int


@dataclass
class BlockCounts:
    """All blocks of the trace, waiting in a file, and what was learned while counting them."""

    spill: IO[bytes]  # native.RECORD, by device and block
    distinct: NDArray[np.uint64]  # by window and role
    fresh: NDArray[np.uint64]  # by window and role
    histogram: TouchHistogram = field(default_factory=TouchHistogram)
    mixed_blocks: int = 0
    requests: int = 0
    impossible: int = 0
    memory_bytes: int = 0  # the most that the tables took
    scans: int = 0  # passes over the trace, given up ones included
    volumes: dict[int, native.Volume] = field(default_factory=dict)  # by the device's number

    def records(self, rows: int = 1 << 18) -> Iterator[NDArray[np.void]]:
        """Yield the blocks in order, some at a time."""
        kind = np.dtype(native.RECORD)
        self.spill.seek(0)
        while data := self.spill.read(rows * kind.itemsize):
            yield np.frombuffer(data, kind)


def choose_windows(duration_ns: int, window_ns: int | None = None) -> Windows:
    """Return windows of the given length, or of a round one that makes 80 to 200 of them.

    `duration_ns` is the latest time of the trace. Raise UsageError beyond MAX_WINDOWS.
    """
    if window_ns is None:
        wanted = max(1, math.ceil(duration_ns / WINDOWS_WANTED))
        scale = 10 ** (len(str(wanted)) - 1)
        window_ns = next(scale * step for step in (1, 2, 5, 10) if scale * step >= wanted)
    count = max(0, duration_ns) // window_ns + 1
    if count > MAX_WINDOWS:
        raise UsageError(
            f"windows of {window_ns / 1e9} s cut the trace of {duration_ns / 1e9} s"
            f" into {count}, more than {MAX_WINDOWS}",
            hint="give a longer --window, in seconds",
        )
    return Windows(window_ns, count)


def count_blocks(
    requests: Path,
    devices: list[str],
    *,
    windows: Windows,
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
    on_rows: OnRows = ignore_rows,
) -> BlockCounts:
    """Count the accesses of every block in at most `budget_bytes` of tables.

    When the blocks do not fit, the trace is read once for each of several ranges of blocks, with
    the same result. `devices` fixes the order of the output. The spill file is unlinked already.
    """
    if len(devices) > native.MAX_DEVICES:
        raise InputError(
            f"{requests} has {len(devices)} devices, hotness can count {native.MAX_DEVICES}",
            hint="parse fewer devices at a time",
        )
    shape = (windows.count, len(ROLES))
    spill = tempfile.TemporaryFile(dir=requests.parent)  # noqa: SIM115 - outlives this function
    counts = BlockCounts(spill, np.zeros(shape, np.uint64), np.zeros(shape, np.uint64))
    ranges = [native.ALL_KEYS]
    with native.Hotness(
        budget_bytes, window_ns=windows.window_ns, window_count=windows.count, role_count=len(ROLES)
    ) as kernel:
        while ranges:
            first_key, last_key = ranges.pop(0)
            kernel.start(first_key, last_key)
            counts.scans += 1
            part = _scan(kernel, requests, devices, on_rows)
            if part < 1:
                ranges[:0] = _cut(kernel, first_key, last_key, part)
            else:
                _collect(kernel, counts)
                _collect_volumes(kernel, counts, range(len(devices)))
    return counts


def _scan(kernel: native.Hotness, requests: Path, devices: list[str], on_rows: OnRows) -> float:
    """Feed the whole trace; return the share of its rows that fitted into the budget."""
    file = open_table(requests, COLUMNS)
    device_code = {name: code for code, name in enumerate(devices)}
    done = 0
    for batch in batches(requests, (*COLUMNS, *time_columns(file)), on_rows=on_rows):
        try:
            kernel.add(_columns(batch, device_code))
        except native.BudgetUsedUpError as full:
            return (done + full.done) / float(file.metadata.num_rows)
        done += batch.num_rows
    return 1.0


def _columns(batch: Any, device_code: dict[str, int]) -> native.Requests:
    def numbered(name: str, code_of: Mapping[str, int], *, other: int) -> NDArray[np.int64]:
        return codes(batch.column(name), lambda text: code_of.get(text or "", other))

    return native.Requests(
        sector=ints(batch.column("sector")),
        length_bytes=ints(batch.column("length_bytes")),
        time_ns=first_event_ns(batch),
        device=numbered("device", device_code, other=0).astype(np.uint16),
        operation=numbered("operation", OPERATION_CODES, other=native.IGNORED).astype(np.uint8),
        role=numbered("role", ROLE_CODES, other=ROLE_CODES["unknown"]).astype(np.uint8),
    )


def _cut(
    kernel: native.Hotness, first_key: int, last_key: int, part: float
) -> list[tuple[int, int]]:
    """Return smaller ranges; `part` is the share of the trace after which memory was used up."""
    pieces = min(MAX_PIECES, math.ceil(1 / (FILL_RATIO * max(part, 1 / MAX_PIECES))))
    cuts = [key for key in kernel.cuts(pieces) if key > first_key]
    if not cuts:
        raise TracekitError(
            "the memory budget for hotness is too small for the blocks of one request",
            hint="give a larger --memory",
        )
    edges = [first_key, *cuts, last_key + 1]
    return [(first, end - 1) for first, end in pairwise(edges)]


def _collect(kernel: native.Hotness, counts: BlockCounts) -> None:
    totals = kernel.totals()
    distinct, fresh = kernel.windows()
    counts.distinct += distinct
    counts.fresh += fresh
    counts.mixed_blocks += totals.mixed_blocks
    counts.requests, counts.impossible = totals.requests, totals.impossible
    counts.memory_bytes = max(counts.memory_bytes, totals.memory_bytes)
    for records in kernel.export():
        counts.histogram.add(records["reads"].astype("u8") + records["writes"])
        counts.spill.write(records.data)


def _collect_volumes(kernel: native.Hotness, counts: BlockCounts, devices: Iterable[int]) -> None:
    for device in devices:
        found, known = kernel.volume(device), counts.volumes.get(device)
        if found is None or known is None:
            counts.volumes |= {} if found is None else {device: found}
            continue
        known.intervals += found.intervals
        known.counts = {name: count + found.counts[name] for name, count in known.counts.items()}


@dataclass(frozen=True)
class Temperatures:
    """How the rule came out."""

    hot_min_touches: int
    blocks: NDArray[np.int64]  # by role and temperature
    touches: NDArray[np.int64]  # by role and temperature
    sectors: NDArray[np.int64]  # different 512-byte sectors by role


def write_blocks(
    path: Path, counts: BlockCounts, *, devices: list[str], rule: TemperatureRule
) -> Temperatures:
    """Write one row a block, by device and block, and return what each temperature came to."""
    cells = np.zeros((2, len(ROLES), len(TEMPERATURES)), np.int64)
    sectors = np.zeros(len(ROLES), np.int64)
    hot_min_touches = counts.histogram.hot_min_touches(rule)
    result = Temperatures(hot_min_touches, cells[0], cells[1], sectors)
    write_batches(path, _block_batches(counts, devices, result), schema=BLOCKS)
    return result


def _block_batches(counts: BlockCounts, devices: list[str], result: Temperatures) -> Iterator[Any]:
    all_touches, shape = max(1, counts.histogram.touches), result.blocks.shape
    for records in counts.records():
        role, touches = records["role"].astype(np.int64), records["reads"].astype("u8")
        touches += records["writes"]
        temperature = temperature_codes(touches, result.hot_min_touches)
        cell = role * len(TEMPERATURES) + temperature
        # Sums of weights are doubles, exact here: a batch's touches stay far below 2^53.
        result.blocks[:] += np.bincount(cell, minlength=result.blocks.size).reshape(shape)
        weighted = np.bincount(cell, weights=touches, minlength=result.blocks.size)
        result.touches[:] += weighted.astype(np.int64).reshape(shape)
        sectors = np.bincount(role, weights=records["sectors"], minlength=len(ROLES))
        result.sectors[:] += sectors.astype(np.int64)
        columns = {
            "device": text_column(records["device"], devices),
            "role": text_column(records["role"], ROLES),
            "temperature": text_column(temperature, TEMPERATURES),
            "traffic_ratio": number_column(touches / all_touches, pa.float64()),
        }
        others = [field for field in BLOCKS if field.name not in columns]
        columns |= {field.name: number_column(records[field.name], field.type) for field in others}
        yield pa.record_batch([columns[name] for name in BLOCKS.names], schema=BLOCKS)


def write_working_set(path: Path, counts: BlockCounts, *, windows: Windows) -> None:
    """Write one row a window and role, for every window and each role that has blocks."""
    write_batches(path, _window_batches(counts, windows), schema=WORKING_SET)


def _window_batches(counts: BlockCounts, windows: Windows, rows: int = 1 << 16) -> Iterator[Any]:
    roles = np.flatnonzero(counts.fresh.sum(axis=0))
    if not len(roles):
        return
    for first in range(0, windows.count, rows):
        some = slice(first, min(first + rows, windows.count))
        starts = np.arange(some.start, some.stop, dtype=np.int64) * windows.window_ns
        yield pa.record_batch(
            [
                number_column(np.repeat(starts, len(roles)), pa.int64()),
                text_column(np.tile(roles, len(starts)), ROLES),
                number_column(counts.distinct[some][:, roles].ravel(), pa.int64()),
                number_column(counts.fresh[some][:, roles].ravel(), pa.int64()),
            ],
            schema=WORKING_SET,
        )


KIND_NAMES = {name: name.upper() for name in native.INTERVALS[:4]}
"""Of the kinds that are known by their initials."""


def write_volumes(path: Path, counts: BlockCounts, *, devices: list[str]) -> None:
    """Write one row a device that was read or written."""
    rows = [
        {"device": devices[device], **volume.counts}
        for device, volume in sorted(counts.volumes.items())
    ]
    write_table(path, pa.Table.from_pylist(rows, VOLUMES))


def write_intervals(path: Path, counts: BlockCounts, *, devices: list[str]) -> None:
    """Write one row a device, kind of interval and bucket that has some."""
    lows = [_bucket_low(bucket) for bucket in range(native.BUCKETS + 1)]
    rows = [
        {
            "device": devices[device],
            "kind": KIND_NAMES.get(kind, kind),
            "low_ns": lows[bucket] if bucket < native.BUCKETS else None,
            "high_ns": lows[bucket + 1] if bucket < native.BUCKETS else None,
            "interval_count": int(cells[bucket]),
        }
        for device, volume in sorted(counts.volumes.items())
        for kind, cells in zip(native.INTERVALS, volume.intervals, strict=True)
        for bucket in np.flatnonzero(cells).tolist()
    ]
    write_table(path, pa.Table.from_pylist(rows, INTERVALS))


def _bucket_low(bucket: int) -> int:
    """Return the smallest number of a log-linear bucket, at most what the column holds."""
    steps = 1 << native.OCTAVE_BITS
    if bucket < 2 * steps:
        return bucket
    return min((bucket % steps + steps) << (bucket // steps - 1), np.iinfo(np.int64).max)
