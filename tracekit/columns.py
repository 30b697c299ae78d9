"""Columns of tables as numpy arrays and back.

Arrow's own conversions load pandas first, which takes longer than a stage on a small trace, so that
buffers are handed over directly here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH_ROWS = 1 << 18


def open_table(path: Path, needed: Sequence[str] = ()) -> Any:
    """Open a Parquet file; raise InputError when it is none or lacks one of the columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        message = f"{path} is not a readable Parquet file: {error}"
        raise InputError(message, hint="make it again") from None
    missing = [name for name in needed if name not in file.schema_arrow.names]
    if missing:
        raise InputError(f"{path} lacks the columns {', '.join(missing)}", hint="make it again")
    return file


def read_batches(path: Path, names: Sequence[str]) -> Iterator[Any]:
    """Yield a Parquet file's columns as record batches of up to BATCH_ROWS rows.

    Raise InputError when the file cannot be read, to its end, or lacks one of them.
    """
    import pyarrow as pa

    file = open_table(path, names)
    try:
        yield from file.iter_batches(BATCH_ROWS, columns=list(names))
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}", hint="make it again") from None


def ints(column: Any, *, if_null: int = 0) -> NDArray[np.int64]:
    """Return an int64 column, with `if_null` in place of nulls."""
    import numpy as np

    values = _values(column, np.int64)
    if column.null_count:
        return np.where(flags(column.is_valid()), values, np.int64(if_null))
    return values


def flags(column: Any) -> NDArray[np.bool_]:
    """Return a boolean column without nulls."""
    import numpy as np
    import pyarrow as pa

    return _values(column.cast(pa.uint8()), np.uint8).view(np.bool_)


def texts(column: Any) -> tuple[list[str], NDArray[np.int32]]:
    """Return the different values of a text column and each row's index in them.

    The index of a null is the number of values.
    """
    import numpy as np
    import pyarrow as pa

    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values: list[str] = encoded.dictionary.to_pylist()
    indices = _values(encoded.indices.cast(pa.int32()), np.int32)
    if column.null_count:
        indices = np.where(flags(column.is_valid()), indices, np.int32(len(values)))
    return values, indices


def codes(column: Any, code_of: Callable[[str | None], int]) -> NDArray[np.int64]:
    """Map a text column through `code_of`, which is asked once for each different value."""
    import numpy as np

    values, indices = texts(column)
    lookup = np.array([code_of(text) for text in [*values, None]], np.int64)
    return np.asarray(lookup[indices], np.int64)


def _values(column: Any, kind: type[Any]) -> NDArray[Any]:
    """Return a column's buffer of values; what stands in place of nulls is undefined."""
    import numpy as np

    if not len(column):
        return np.empty(0, kind)
    first = int(column.offset)
    return np.frombuffer(column.buffers()[1], kind)[first : first + len(column)]


def number_column(values: NDArray[Any], kind: Any) -> Any:
    """Return an Arrow column without nulls of the numbers, cast to the Arrow type's width."""
    import numpy as np
    import pyarrow as pa

    exact = np.ascontiguousarray(values, kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(exact), [None, pa.py_buffer(exact)])


def text_column(indices: NDArray[Any], texts: Sequence[str]) -> Any:
    """Return an Arrow dictionary column of `texts` by their indices."""
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(number_column(indices, pa.int32()), word_array(texts))


def word_array(texts: Sequence[str]) -> Any:
    """Return an Arrow array of the texts."""
    import numpy as np
    import pyarrow as pa

    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)])
    buffers = [pa.py_buffer(np.asarray(ends, np.int32)), pa.py_buffer(b"".join(encoded))]
    return pa.StringArray.from_buffers(len(texts), *buffers)
