"""Writes a plan whose records are final when they come: what is generated, not traced."""

from __future__ import annotations

from typing import IO, Any

import numpy as np

from tracekit.plan.file import (
    CHUNK_RECORDS,
    INDEX,
    STRIDE,
    PlanWriter,
    Records,
    Tables,
    Totals,
    index_blocks,
    target_table,
)


class FinalPlanWriter(PlanWriter):
    """Takes records that already lie on their targets: one pass, and nothing is read again.

    All that is appended but the last is a multiple of STRIDE records.
    """

    def __init__(self, file: IO[bytes], tables: Tables) -> None:
        """Start a plan in an empty file; the tables are known."""
        super().__init__(file)
        self._tables = tables
        self._index: list[Records] = []
        self._totals = Totals(target_table(tables))

    def append(self, records: Records) -> None:
        """Append records whose `target` and `sector` are final."""
        for first in range(0, len(records), CHUNK_RECORDS):
            chunk = records[first : first + CHUNK_RECORDS]
            index = np.zeros(-(-len(chunk) // STRIDE), INDEX)
            index_blocks(chunk, index)
            self._index.append(index)
            self._totals.add(chunk)
            super().append(chunk)

    def close(self) -> dict[str, Any]:
        """Add index and tables; return totals."""
        index = np.concatenate([np.zeros(0, INDEX), *self._index])
        return self._close(self._tables, index, self._totals)
