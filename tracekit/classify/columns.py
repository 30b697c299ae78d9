"""Reads columns of `requests` as numpy arrays, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH_ROWS = 1 << 18
NO_TIME = -(1 << 63)
EVENT_TIMES = ("queue_ns", "getrq_ns", "insert_ns", "merge_ns", "issue_ns", "complete_ns")

OnRows = Callable[[int], None]


def ignore_rows(_rows: int) -> None:
    """Take no notice of progress."""


def open_table(path: Path, needed: Sequence[str]) -> Any:
    """Open a Parquet file; raise InputError when it is none or lacks one of the columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{path} is not a readable Parquet file: {error}", hint="parse the capture again"
        ) from None
    missing = [name for name in needed if name not in file.schema_arrow.names]
    if missing:
        raise InputError(
            f"{path} lacks the columns {', '.join(missing)}", hint="parse the capture again"
        )
    return file


def batches(file: Any, columns: Sequence[str], on_rows: OnRows = ignore_rows) -> Iterator[Any]:
    """Yield record batches of these columns; `on_rows` is told of each batch's rows."""
    for batch in file.iter_batches(BATCH_ROWS, columns=list(columns)):
        yield batch
        on_rows(batch.num_rows)


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
    import pyarrow.compute as pc

    known = [batch.column(name) for name in EVENT_TIMES if name in batch.schema.names]
    times = known[0] if len(known) == 1 else pc.coalesce(*known)
    return ints(pc.fill_null(times, NO_TIME))


def ints(column: Any) -> NDArray[np.int64]:
    """Return an integer column without nulls as int64."""
    import numpy as np

    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def flags(column: Any) -> NDArray[np.bool_]:
    """Return a boolean column without nulls."""
    import numpy as np

    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)


def codes(column: Any, code_of: Callable[[str | None], int]) -> NDArray[np.int64]:
    """Map a text column through `code_of`, which is asked once for each different value."""
    import numpy as np
    import pyarrow as pa

    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    lookup = np.array([code_of(value) for value in [*values, None]], np.int64)
    indices = encoded.indices.fill_null(len(values))
    return np.asarray(lookup[indices.to_numpy(zero_copy_only=False)], np.int64)
