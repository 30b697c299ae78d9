"""Writes `blocks` and `working_set` from the counts of `hotness`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.classify.hotness import BlockCounts, Windows
from tracekit.classify.temperature import TEMPERATURES, TemperatureRule, temperature_codes
from tracekit.columns import number_column, text_column
from tracekit.schema import BLOCKS, ROLES, WORKING_SET
from tracekit.store import write_batches

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
    import numpy as np

    shape = (len(ROLES), len(TEMPERATURES))
    result = Temperatures(
        counts.histogram.hot_min_touches(rule),
        np.zeros(shape, np.int64),
        np.zeros(shape, np.int64),
        np.zeros(len(ROLES), np.int64),
    )
    write_batches(path, _block_batches(counts, devices, result), schema=BLOCKS)
    return result


def _block_batches(counts: BlockCounts, devices: list[str], result: Temperatures) -> Iterator[Any]:
    all_touches = max(1, counts.histogram.touches)
    for records in counts.records():
        touches = records["reads"].astype("u8") + records["writes"]
        temperature = temperature_codes(touches, result.hot_min_touches)
        _tally(result, records, touches, temperature)
        yield _block_batch(records, touches / all_touches, temperature, devices)


def _block_batch(
    records: NDArray[np.void],
    traffic_ratio: NDArray[np.float64],
    temperature: NDArray[np.int8],
    devices: list[str],
) -> Any:
    import pyarrow as pa

    columns = {
        "device": text_column(records["device"], devices),
        "role": text_column(records["role"], ROLES),
        "temperature": text_column(temperature, TEMPERATURES),
        "traffic_ratio": number_column(traffic_ratio, pa.float64()),
    }
    arrays = [
        columns[field.name]
        if field.name in columns
        else number_column(records[field.name], field.type)
        for field in BLOCKS
    ]
    return pa.record_batch(arrays, schema=BLOCKS)


def _tally(
    result: Temperatures,
    records: NDArray[np.void],
    touches: NDArray[np.uint64],
    temperature: NDArray[np.int8],
) -> None:
    import numpy as np

    role = records["role"].astype(np.int64)
    cell = role * len(TEMPERATURES) + temperature
    shape = result.blocks.shape
    # Sums of weights are doubles, exact here: a batch's touches stay far below 2^53.
    result.blocks[:] += np.bincount(cell, minlength=result.blocks.size).reshape(shape)
    weighted = np.bincount(cell, weights=touches, minlength=result.blocks.size)
    result.touches[:] += weighted.astype(np.int64).reshape(shape)
    sectors = np.bincount(role, weights=records["sectors"], minlength=len(ROLES))
    result.sectors[:] += sectors.astype(np.int64)


def write_working_set(path: Path, counts: BlockCounts, *, windows: Windows) -> None:
    """Write one row a window and role, for every window and each role that has blocks."""
    write_batches(path, _window_batches(counts, windows), schema=WORKING_SET)


def _window_batches(counts: BlockCounts, windows: Windows, rows: int = 1 << 16) -> Iterator[Any]:
    import numpy as np
    import pyarrow as pa

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
