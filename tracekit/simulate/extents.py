"""How much is read and written in each extent of a trace: the input of tiering (study B, step 1).

An amount is bytes, as in the study, or requests. Bytes stand for operations of 4 KiB, which is
what the latencies of the tiers are of, so a long request weighs as much as its 4 KiB parts; a
request that crosses from one extent into the next is divided between them. Counted by requests,
each weighs the same and belongs to the extent in which it begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracekit import query
from tracekit.errors import InputError
from tracekit.native.tiering import Windows
from tracekit.schema import ROLES, SECTOR_BYTES
from tracekit.simulate.columns import codes, numbers, role_codes
from tracekit.store import TraceFolder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EXTENT_BITS = 48  # of a key, below the number of the device
WHOLE_TRACE_NS = (1 << 63) - 1
AMOUNTS = {"bytes": ("read_bytes", "write_bytes"), "requests": ("read_count", "write_count")}


@dataclass(frozen=True)
class Extents:
    """The touched extents by device and place, with their traffic in bytes or requests."""

    devices: list[str]
    device: NDArray[np.int64]  # index in `devices`
    number: NDArray[np.int64]  # from the start of the device
    reads: NDArray[np.int64]
    writes: NDArray[np.int64]
    role_reads: NDArray[np.int64]  # a row a role of schema.ROLES
    role_writes: NDArray[np.int64]
    windows: Windows  # those with traffic
    window_numbers: NDArray[np.int64]
    left_out: dict[str, int]  # requests that are no traffic, by reason

    @property
    def total(self) -> int:
        """All traffic."""
        return int(self.reads.sum() + self.writes.sum())


@dataclass(frozen=True)
class _Rows:
    """The rows of analyzers/tiering/extents.sql as arrays, in its order."""

    window: NDArray[np.int64]
    key: NDArray[np.int64]
    role: NDArray[np.int64]
    reads: NDArray[np.int64]
    writes: NDArray[np.int64]


def read_extents(
    folder: TraceFolder,
    *,
    extent_bytes: int,
    window_ns: int | None,
    amount: str,
    on_rows: Callable[[int], None] | None = None,
) -> Extents:
    """Gather the traffic of a trace; `window_ns` None takes the whole trace as one window.

    Raise InputError when nothing was read or written.
    """
    import numpy as np

    folder.require("requests", made_by="parse")
    parameters = {
        "extent_sectors": extent_bytes // SECTOR_BYTES,
        "window_ns": window_ns or WHOLE_TRACE_NS,
    }
    devices: list[str] = []
    batches = []
    with query.connect(folder) as connection:
        left_out = query.run(connection, "tiering/left_out").to_pylist()
        for batch in query.stream(connection, "tiering/extents", **parameters):
            batches.append(_read_batch(batch, devices, amount))
            if on_rows is not None:
                on_rows(batch.num_rows)
    rows = (
        _Rows(*(np.concatenate(column) for column in zip(*batches, strict=True)))
        if batches
        else None
    )
    if rows is None or not (rows.reads.any() or rows.writes.any()):
        raise InputError(f"{folder.path}: nothing was read or written, so there is nothing to tier")
    return _gather(rows, devices, {row["reason"]: row["request_count"] for row in left_out})


def _read_batch(batch: Any, devices: list[str], amount: str) -> tuple[NDArray[np.int64], ...]:
    import numpy as np

    device = codes(batch.column("device"), devices, grow=True).astype(np.int64)
    key = (device << EXTENT_BITS) | numbers(batch.column("extent"))
    reads, writes = (numbers(batch.column(name)).copy() for name in AMOUNTS[amount])
    role = role_codes(batch.column("role")).astype(np.int64)
    return numbers(batch.column("window_number")).copy(), key, role, reads, writes


def _gather(rows: _Rows, devices: list[str], left_out: dict[str, int]) -> Extents:
    import numpy as np

    # Devices get their numbers in the order of their names, in which the rows of a window are.
    names = sorted(devices)
    rank = np.array([names.index(name) for name in devices], np.int64)
    low = (np.int64(1) << EXTENT_BITS) - 1
    key = (rank[rows.key >> EXTENT_BITS] << EXTENT_BITS) | (rows.key & low)
    keys, extent = np.unique(key, return_inverse=True)
    role_reads = np.zeros((len(ROLES), len(keys)), np.int64)
    role_writes = np.zeros_like(role_reads)
    np.add.at(role_reads, (rows.role, extent), rows.reads)
    np.add.at(role_writes, (rows.role, extent), rows.writes)
    windows, window_numbers = _windows(rows, extent)
    return Extents(
        devices=names,
        device=keys >> EXTENT_BITS,
        number=keys & low,
        reads=role_reads.sum(axis=0),
        writes=role_writes.sum(axis=0),
        role_reads=role_reads,
        role_writes=role_writes,
        windows=windows,
        window_numbers=window_numbers,
        left_out=left_out,
    )


def _windows(rows: _Rows, extent: NDArray[np.int64]) -> tuple[Windows, NDArray[np.int64]]:
    """Add up the roles of each window and extent, which follow each other."""
    import numpy as np

    is_first = np.ones(len(extent), bool)
    is_first[1:] = (np.diff(rows.window) != 0) | (np.diff(extent) != 0)
    starts = np.flatnonzero(is_first)
    numbers, first_item = np.unique(rows.window[starts], return_index=True)
    windows = Windows(
        first_item=np.append(first_item, len(starts)).astype(np.uint64),
        extent=extent[starts].astype(np.uint32),
        reads=np.add.reduceat(rows.reads, starts),
        writes=np.add.reduceat(rows.writes, starts),
    )
    return windows, numbers
