"""How often the 4 KiB pages of a trace are written, and how long a device bears that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.schema import BLOCK_BYTES
from tracekit.simulate.block_orders import TouchedBlocks
from tracekit.simulate.columns import codes, numbers, read_columns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COLUMNS = ["device", "block", "writes"]
DAY_NS = 86_400 * 10**9
PERCENTILE = 99


@dataclass(frozen=True)
class Wear:
    """Writes of some pages; the factor and the percentile are None when none was written."""

    pages: int
    written_pages: int
    page_writes: int
    write_invalidation_factor: float | None
    writes_p99: int | None
    writes_max: int


@dataclass(frozen=True)
class Bearer:
    """What bears the writes: capacity, cycles of a cell, writes that one page write becomes."""

    capacity_bytes: int
    endurance_cycles: float | None
    write_amplification: float = 1.0


def read_writes(file: Path, touched: TouchedBlocks) -> NDArray[np.int64]:
    """Return the write requests of each block of `touched`, which was read from the same file."""
    import numpy as np

    writes = np.zeros(len(touched.keys), np.int64)
    for column in read_columns(file, COLUMNS):
        device = codes(column["device"], touched.device_names)
        start = touched.devices[device]
        keys = numbers(column["block"]) - start["first_block"] + start["first_key"]
        writes[np.searchsorted(touched.keys, keys)] = numbers(column["writes"])
    return writes


def wear_of(writes: NDArray[np.int64]) -> Wear:
    """Count the writes of pages, an entry a page.

    The factor is OCTF's write invalidation factor, how often what is written is written on
    average, by page and not by sector. The percentile is exact, by nearest rank.
    """
    import numpy as np

    written = writes[writes > 0]
    if not len(written):
        return Wear(len(writes), 0, 0, None, None, 0)
    total = int(written.sum())
    rank = -(-len(written) * PERCENTILE // 100) - 1
    p99 = int(np.partition(written, rank)[rank])
    factor = total / len(written)
    return Wear(len(writes), len(written), total, factor, p99, int(written.max()))


def a_day(amount: float, duration_ns: int) -> float | None:
    """Return what a trace of this duration does in 24 hours at its mean rate; None without one."""
    return amount / duration_ns * DAY_NS if duration_ns > 0 else None


def lifetimes(
    wear: Wear, bearer: Bearer, *, duration_ns: int
) -> tuple[float, float] | tuple[None, None]:
    """Return the days that the device lasts, with ideal wear levelling and with none.

    Ideal: cycles x capacity / (bytes a day x amplification), all cells wear alike. None: the page
    that is written most reaches its cycles. Real devices lie between. None where the cycles or the
    duration are not known or nothing is written.
    """
    worst_a_day = a_day(wear.writes_max * bearer.write_amplification, duration_ns)
    total_a_day = a_day(wear.page_writes * bearer.write_amplification, duration_ns)
    if bearer.endurance_cycles is None or not worst_a_day or not total_a_day:
        return None, None
    page_count = bearer.capacity_bytes / BLOCK_BYTES
    ideal = bearer.endurance_cycles * page_count / total_a_day
    return ideal, bearer.endurance_cycles / worst_a_day
