"""The requests of a trace as accesses to pages of one size, in queue order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.native.handle import ACCESS
from tracekit.schema import BLOCK_BYTES, OPERATIONS, SECTOR_BYTES
from tracekit.simulate.block_orders import TouchedBlocks
from tracekit.simulate.columns import codes, numbers, read_columns, role_codes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COLUMNS = ["device", "sector", "length_bytes", "operation", "role"]
# The limits of the block counts of `classify`: what is beyond them has no blocks.
MAX_SECTOR = 1 << 57
MAX_LENGTH_BYTES = (1 << 32) - 1
# Without a table of blocks a device's pages are apart from another's by this many.
DEVICE_PAGES = 1 << 46
OTHER = 2  # neither a read (0) nor a write (1)


@dataclass
class Accesses:
    """Reads the requests once, from front to back; `impossible` counts what was left out."""

    requests: Path
    page_bytes: int
    device_names: list[str] = field(default_factory=list)
    first_keys: NDArray[np.int64] | None = None  # of each device's page 0; None: far apart
    impossible: int = 0

    def read(self, on_rows: Callable[[int], None] | None = None) -> Iterator[NDArray[np.void]]:
        """Yield reads and writes as native accesses."""
        import numpy as np

        is_write_of = np.full(len(OPERATIONS) + 1, OTHER, np.uint8)
        is_write_of[[OPERATIONS.index("read"), OPERATIONS.index("write")]] = (0, 1)
        for column in read_columns(self.requests, COLUMNS):
            is_write = is_write_of[codes(column["operation"], list(OPERATIONS))]
            sector, length = numbers(column["sector"]), numbers(column["length_bytes"])
            is_possible = (sector >= 0) & (sector < MAX_SECTOR)
            is_possible &= (length > 0) & (length <= MAX_LENGTH_BYTES)
            is_data = is_write != OTHER
            self.impossible += int((is_data & ~is_possible).sum())
            chosen = np.flatnonzero(is_data & is_possible)
            device = codes(column["device"], self.device_names, grow=self.first_keys is None)
            first = sector[chosen] * SECTOR_BYTES // self.page_bytes
            last = (sector[chosen] * SECTOR_BYTES + length[chosen] - 1) // self.page_bytes
            rows = np.zeros(len(chosen), np.dtype(ACCESS))
            rows["key"] = first + self._first_keys()[device[chosen]]
            rows["count"] = last - first + 1
            rows["is_write"] = is_write[chosen]
            rows["role"] = role_codes(column["role"])[chosen]
            yield rows
            if on_rows is not None:
                on_rows(len(sector))

    def _first_keys(self) -> NDArray[np.int64]:
        import numpy as np

        if self.first_keys is not None:
            return self.first_keys
        return np.arange(len(self.device_names) + 1, dtype=np.int64) * DEVICE_PAGES


def page_keys(
    touched: TouchedBlocks, page_bytes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the keys of all touched pages, ascending, and by device the key of its page 0.

    Also how many of the keys come before those of each device. Of the keys of page 0 there is one
    entry more than there are devices: requests of a device without blocks find no page.
    """
    import numpy as np

    scale = page_bytes // BLOCK_BYTES
    first_keys = np.full(len(touched.device_names) + 1, -DEVICE_PAGES, np.int64)
    first_ranks = np.zeros(len(touched.device_names), np.int64)
    parts = [np.empty(0, np.int64)]
    next_key = 0
    bounds = np.searchsorted(touched.keys, touched.devices["first_key"])
    for index in range(len(touched.device_names)):
        device = touched.devices[index]
        end = bounds[index] + np.searchsorted(
            touched.keys[bounds[index] :], device["first_key"] + device["blocks"]
        )
        blocks = touched.keys[bounds[index] : end] - device["first_key"] + device["first_block"]
        pages = blocks // scale
        first_ranks[index] = sum(map(len, parts))
        if not len(pages):
            continue
        pages = pages[np.concatenate([[True], np.diff(pages) > 0])] if scale > 1 else pages
        first_keys[index] = next_key - int(pages[0])
        parts.append(pages + first_keys[index])
        next_key = int(parts[-1][-1]) + 2
    return np.concatenate(parts), first_keys, first_ranks
