"""The requests of a trace as accesses to pages of one size, in queue order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit import columns
from tracekit.native.accesses import NEITHER, READ, WRITE, AccessColumns, make_accesses
from tracekit.schema import BLOCK_BYTES, ROLES
from tracekit.simulate.block_orders import TouchedBlocks
from tracekit.simulate.columns import numbers, read_columns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COLUMNS = ["device", "sector", "length_bytes", "operation", "role"]
# Without a table of blocks a device's pages are apart from another's by this many.
DEVICE_PAGES = 1 << 46
KINDS = {"read": READ, "write": WRITE}


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
        for column in read_columns(self.requests, COLUMNS):
            rows, impossible = make_accesses(self._coded(column), self.page_bytes)
            self.impossible += impossible
            yield rows
            if on_rows is not None:
                on_rows(len(column["sector"]))

    def _coded(self, column: dict[str, Any]) -> AccessColumns:
        import numpy as np

        devices, device = columns.texts(column["device"])
        operations, operation = columns.texts(column["operation"])
        roles, role = columns.texts(column["role"])
        # The last entry of each table is that of nulls.
        kinds = [KINDS.get(name, NEITHER) for name in operations] + [NEITHER]
        unknown = ROLES.index("unknown")
        codes = [ROLES.index(name) if name in ROLES else unknown for name in roles] + [unknown]
        return AccessColumns(
            numbers(column["sector"]),
            numbers(column["length_bytes"]),
            device,
            operation,
            role,
            self._first_keys(devices),
            np.array(kinds, np.uint8),
            np.array(codes, np.uint8),
        )

    def _first_keys(self, devices: list[str]) -> NDArray[np.int64]:
        """Return the key of page 0 of each of the devices, and of one that is not named."""
        import numpy as np

        if self.first_keys is None:
            self.device_names += [name for name in devices if name not in self.device_names]
        last = len(self.device_names)
        known = {name: index for index, name in enumerate(self.device_names)}
        numbers_of = np.array([known.get(name, last) for name in devices] + [last], np.int64)
        if self.first_keys is None:
            return numbers_of * DEVICE_PAGES
        return self.first_keys[numbers_of]


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
