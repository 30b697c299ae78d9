"""Columns of tables as numpy arrays and back.

Arrow's own conversions load pandas first, which takes longer than a small trace's simulation, so
that buffers are handed over directly here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import InputError
from tracekit.schema import ROLES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH_ROWS = 1 << 18
UNKNOWN = -1


def row_count(file: Path) -> int:
    """Return a Parquet file's number of rows; raise InputError when it is none."""
    return int(_open(file).metadata.num_rows)


def read_columns(file: Path, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the columns of a Parquet file by name, a quarter of a million rows at a time.

    Raise InputError when the file cannot be read or lacks one of them.
    """
    import pyarrow as pa

    parquet = _open(file)
    missing = [name for name in names if name not in parquet.schema_arrow.names]
    if missing:
        raise InputError(f"{file} lacks the columns {', '.join(missing)}", hint="make it again")
    try:
        for batch in parquet.iter_batches(BATCH_ROWS, columns=list(names)):
            yield {name: batch.column(name) for name in names}
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{file} cannot be read: {error}", hint="make it again") from None


def numbers(column: Any) -> NDArray[np.int64]:
    """Return an int64 column with UNKNOWN in place of nulls."""
    import numpy as np

    values = _values(column, np.int64)
    if not column.null_count:
        return values
    return np.where(flags(column.is_valid()).view(np.bool_), values, np.int64(UNKNOWN))


def flags(column: Any) -> NDArray[np.uint8]:
    """Return a boolean column without nulls as 0 and 1."""
    import numpy as np
    import pyarrow as pa

    return _values(column.cast(pa.uint8()), np.uint8)


def codes(column: Any, names: list[str], *, grow: bool = False) -> NDArray[np.int32]:
    """Return each text's index in `names`, or len(names); with `grow`, new names are appended."""
    import numpy as np

    encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    if grow:
        names.extend(text for text in dict.fromkeys(texts) if text not in names)
    known = {name: index for index, name in enumerate(names)}
    lookup = np.array([known.get(text, len(names)) for text in [*texts, None]], np.int32)
    indices = _values(encoded.indices, np.int32)
    if column.null_count:
        indices = np.where(flags(column.is_valid()).view(np.bool_), indices, len(texts))
    found: NDArray[np.int32] = lookup[indices]
    return found


def role_codes(column: Any) -> NDArray[np.int32]:
    """Return each role's index in schema.ROLES; a name that is none of them is `unknown`."""
    import numpy as np

    return np.minimum(codes(column, list(ROLES)), ROLES.index("unknown"))


def number_column(values: NDArray[np.int64]) -> Any:
    """Return an Arrow column of int64."""
    import numpy as np
    import pyarrow as pa

    exact = np.ascontiguousarray(values, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(exact), [None, pa.py_buffer(exact)])


def text_column(text: str, count: int) -> Any:
    """Return an Arrow column that says the same `count` times."""
    import numpy as np
    import pyarrow as pa

    encoded = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * len(encoded)
    buffers = [pa.py_buffer(offsets), pa.py_buffer(encoded * count)]
    return pa.StringArray.from_buffers(count, *buffers)


def _open(file: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        message = f"{file} is not a readable Parquet file: {error}"
        raise InputError(message, hint="make it again") from None


def _values(column: Any, kind: type[Any]) -> NDArray[Any]:
    """Return a column's buffer of values; what stands in place of nulls is undefined."""
    import numpy as np

    if not len(column):
        return np.empty(0, kind)
    first = int(column.offset)
    return np.frombuffer(column.buffers()[1], kind)[first : first + len(column)]
