"""The columns of requests, batch by batch, with progress and a time for every row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.columns import ints, read_batches

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NO_TIME = -(1 << 63)
EVENT_TIMES = ("queue_ns", "getrq_ns", "insert_ns", "merge_ns", "issue_ns", "complete_ns")

OnRows = Callable[[int], None]


def ignore_rows(_rows: int) -> None:
    """Take no notice of progress."""


def batches(path: Path, columns: Sequence[str], *, on_rows: OnRows = ignore_rows) -> Iterator[Any]:
    """Yield record batches of these columns; `on_rows` is told of each batch's rows.

    Raise InputError as tracekit.columns.read_batches.
    """
    for batch in read_batches(path, columns):
        yield batch
        on_rows(batch.num_rows)


def release_memory() -> None:
    """Give memory that Arrow holds for reuse back to the system, before a stage with its own."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def time_columns(file: Any) -> tuple[str, ...]:
    """Return the columns that give every row a time: `queue_ns` alone where it has no nulls."""
    index = file.schema_arrow.names.index("queue_ns")
    for group in range(file.metadata.num_row_groups):
        column = file.metadata.row_group(group).column(index)
        if not column.is_stats_set or column.statistics.null_count != 0:
            return tuple(name for name in EVENT_TIMES if name in file.schema_arrow.names)
    return ("queue_ns",)


def first_event_ns(batch: Any) -> NDArray[np.int64]:
    """Return each row's first known time, NO_TIME where it has none."""
    import numpy as np

    known = [batch.column(name) for name in EVENT_TIMES if name in batch.schema.names]
    times = ints(known[0], if_null=NO_TIME)
    for column in known[1:]:
        times = np.where(times == NO_TIME, ints(column, if_null=NO_TIME), times)
    return times
