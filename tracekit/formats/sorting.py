"""Puts the rows of a foreign trace in order of time, however far they are from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit import query
from tracekit.store import write_batches

Rows = dict[str, NDArray[Any]]
TIME, PLACE = "arrival_ns", "file_row"
MEMORY_MIB = 128  # of the database; an import has 512 in all


class Sorting:
    """Keeps rows in a file in `folder` until all are there, then gives them in order.

    Memory is bounded: the database that sorts spills beside the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.behind = 0
        """Rows that stood behind a later one."""
        self._file = folder / "arrivals.parquet"
        self._rows = 0
        self._latest = np.iinfo(np.int64).min

    def in_order(self, blocks: Iterable[Rows]) -> Iterator[Rows]:
        """Yield the rows of all blocks, which have `time` and the same columns, by time.

        Those of the same time stay in their order.
        """
        every = iter(blocks)
        first = next(every, None)
        if first is None:
            return
        batch = self._placed(first)
        write_batches(self._file, self._all(batch, every), schema=batch.schema)
        connection = query.empty(near=self._file, memory_mib=MEMORY_MIB, threads=1)
        query.add_view(connection, "arrivals", self._file)
        for found in query.stream(connection, "catalog/arrivals_in_order"):
            rows = {name: found[name].to_numpy() for name in found.schema.names if name != PLACE}
            yield {"time": rows.pop(TIME), **rows}
        connection.close()

    def _all(self, first: Any, rest: Iterable[Rows]) -> Iterator[Any]:
        yield first
        for rows in rest:
            yield self._placed(rows).cast(first.schema)

    def _placed(self, rows: Rows) -> Any:
        times = rows["time"]
        latest = np.maximum.accumulate(np.concatenate(([self._latest], times)))
        self.behind += int((times < latest[:-1]).sum())
        self._latest = latest[-1]
        places = np.arange(self._rows, self._rows + len(times))
        self._rows += len(times)
        others = {name: values for name, values in rows.items() if name != "time"}
        return pa.RecordBatch.from_pydict({TIME: times, PLACE: places, **others})
