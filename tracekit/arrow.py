"""Columns of tables as numpy arrays and back, by their buffers.

Arrow's own conversions import pandas first, which takes longer than a stage on a small trace.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tracekit.errors import InputError, first_line
from tracekit.safe_open import open_regular

BATCH_ROWS = 1 << 18
MOST_COLUMNS = 1000
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class _WithoutPandas:
    """Lets pyarrow find no pandas when it looks for it, which it does once.

    It would import all of pandas to see that a list is no series of it: a third of a second of a
    command that has none. In a user's own program it may find it; `to_pandas` does in any.
    """

    def find_spec(self, name: str, *_place: object) -> None:
        """Raise ImportError for pandas."""
        if name == "pandas":
            raise ImportError(name)


if "tracekit.cli" in sys.modules and "pandas" not in sys.modules:
    sys.meta_path.insert(0, hidden := _WithoutPandas())
    pa.array([])
    sys.meta_path.remove(hidden)


def open_table(path: Path, needed: Sequence[str] = (), *, hint: str = "make it again") -> Any:
    """Open a Parquet file; raise InputError if it is not one or a needed column is missing."""
    try:
        file = pq.ParquetFile(regular_file(path))
    except (pa.ArrowException, OSError) as error:
        message = f"{path} is not a readable Parquet file: {first_line(error)}"
        raise InputError(message, hint=hint) from None
    if file.metadata.num_columns > MOST_COLUMNS:
        message = f"{path} has {file.metadata.num_columns:,} columns, more than {MOST_COLUMNS:,}"
        raise InputError(message, hint=hint)
    names = file.schema_arrow.names
    if len(set(names)) < len(names):
        file.close()
        raise InputError(f"{path} has two columns of one name", hint=hint)
    missing = [name for name in needed if name not in names]
    if missing:
        file.close()
        raise InputError(f"{path} lacks the columns {', '.join(missing)}", hint=hint)
    return file


def regular_file(path: Path) -> Any:
    """Open a regular file for Arrow; raise InputError for a link, a pipe or a device."""
    number = open_regular(path)
    try:
        return pa.OSFile(f"/proc/self/fd/{number}")
    finally:
        os.close(number)


def read_whole(path: Path) -> Any:
    """Return a small table of a Parquet file; raise InputError when it cannot be read."""
    try:
        return open_table(path).read()
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}", hint="make it again") from None


def batches_of(file: Any, columns: Sequence[str] | None = None, *, rows: int = 0) -> Iterator[Any]:
    """Yield an open Parquet file's columns as record batches of up to `rows`, or BATCH_ROWS, rows.

    Each row group is read by itself: read as one, Arrow keeps the bytes of all that came before, 3
    GiB of a trace of 200 million requests.
    """
    for group in range(file.num_row_groups):
        yield from file.iter_batches(rows or BATCH_ROWS, columns=columns, row_groups=[group])


def read_batches(path: Path, names: Sequence[str]) -> Iterator[Any]:
    """Yield a Parquet file's columns as record batches of up to BATCH_ROWS rows.

    Raise InputError when the file cannot be read, to its end, or lacks one of them.
    """
    file = open_table(path, names)
    try:
        yield from batches_of(file, list(names))
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}", hint="make it again") from None


def ints(column: Any, *, if_null: int = 0) -> NDArray[np.int64]:
    """Return a column of int64 or int32, with `if_null` in place of nulls."""
    # Arrow's own cast would import all of pyarrow.compute.
    kind = np.int32 if column.type == pa.int32() else np.int64
    values = _values(column, kind).astype(np.int64, copy=False)
    if column.null_count:
        return np.where(_bits(column, 0), values, np.int64(if_null))
    return values


def flags(column: Any) -> NDArray[np.bool_]:
    """Return a boolean column without nulls."""
    return _bits(column, 1) if len(column) else np.empty(0, np.bool_)


def texts(column: Any) -> tuple[list[str], NDArray[np.int32]]:
    """Return the different values of a text column and each row's index in them.

    The index of a null is the number of values.
    """
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values: list[str] = encoded.dictionary.to_pylist()
    places = encoded.indices
    if places.type != pa.int32():
        places = places.cast(pa.int32())
    indices = _values(places, np.int32)
    if places.null_count:
        indices = np.where(_bits(places, 0), indices, np.int32(len(values)))
    return values, indices


def codes(column: Any, code_of: Callable[[str | None], int]) -> NDArray[np.int64]:
    """Map a text column through `code_of`, which is asked once for each different value."""
    values, indices = texts(column)
    lookup = np.array([code_of(text) for text in [*values, None]], np.int64)
    return np.asarray(lookup[indices], np.int64)


def count_names(codes: NDArray[Any], names: Sequence[str]) -> Counter[str]:
    """Return how many rows have each of the names, by their codes; 0 is left out."""
    counts = np.bincount(codes, minlength=len(names)).tolist()
    return Counter({name: count for name, count in zip(names, counts, strict=True) if count})


def _bits(column: Any, buffer: int) -> NDArray[np.bool_]:
    """Return a column's buffer of bits: 0 for what is not null, 1 for values that are true."""
    end = column.offset + len(column)
    whole = np.frombuffer(column.buffers()[buffer], np.uint8)
    return np.unpackbits(whole, count=end, bitorder="little")[column.offset :].view(np.bool_)


def _values(column: Any, kind: type[Any]) -> NDArray[Any]:
    """Return a column's buffer of values; what stands in place of nulls is undefined."""
    if not len(column):
        return np.empty(0, kind)
    first = int(column.offset)
    return np.frombuffer(column.buffers()[1], kind)[first : first + len(column)]


def number_column(
    values: NDArray[Any], kind: Any = None, *, valid: NDArray[np.bool_] | None = None
) -> Any:
    """Return an Arrow column of the numbers, null where `valid` is not true.

    They are cast to the Arrow type, or to that of bool, int32 or int64 numbers.
    """
    kind = kind or {"b1": pa.bool_(), "i4": pa.int32(), "i8": pa.int64()}[values.dtype.str[1:]]
    is_flag = pa.types.is_boolean(kind)
    exact = np.packbits(values, bitorder="little") if is_flag else values
    data = np.ascontiguousarray(exact, None if is_flag else kind.to_pandas_dtype())
    bits = None
    if valid is not None and not valid.all():
        bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(data)])


def text_column(indices: NDArray[Any], texts: Sequence[str]) -> Any:
    """Return an Arrow dictionary column of `texts` by their indices; a negative one is null."""
    places = number_column(indices, pa.int32(), valid=np.asarray(indices) >= 0)
    return pa.DictionaryArray.from_arrays(places, word_array(texts))


def word_array(texts: Sequence[str]) -> Any:
    """Return an Arrow array of the texts."""
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    if ends[-1] > np.iinfo(np.int32).max:
        raise pa.ArrowInvalid(f"{ends[-1]:,} bytes of text are too much for one column")
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(texts), buffers)


def count_rejected(
    reasons: Mapping[str, NDArray[np.bool_]], counts: MutableMapping[str, int]
) -> NDArray[np.bool_]:
    """Return the rows to which no reason applies; count the others by the first that does."""
    is_kept = np.ones_like(next(iter(reasons.values())))
    for reason, applies in reasons.items():
        if count := int((applies & is_kept).sum()):
            counts[reason] = counts.get(reason, 0) + count
        is_kept &= ~applies
    return is_kept


UNKNOWN = -1
Item = TypeVar("Item")


def row_count(file: Path) -> int:
    """Return a Parquet file's number of rows; raise InputError if it is not one."""
    return int(open_table(file).metadata.num_rows)


def read_columns(file: Path, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the columns of a Parquet file by name, a quarter of a million rows at a time.

    Raise InputError when the file cannot be read or lacks one of them.
    """
    for batch in read_batches(file, names):
        yield {name: batch.column(name) for name in names}


def release_unused() -> None:
    """Return memory to the system that Arrow has freed and would keep for its next columns."""
    pa.default_memory_pool().release_unused()


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield items of which the next one is made meanwhile, on another thread."""
    pool = ThreadPoolExecutor(1)
    try:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item
    finally:
        # A generator left behind is closed by whichever thread collects it, maybe one that is just
        # being started and holds what a thread needs to end: waiting here could last for ever.
        pool.shutdown(wait=False)


def numbers(column: Any) -> NDArray[np.int64]:
    """Return an int64 column with UNKNOWN in place of nulls."""
    return ints(column, if_null=UNKNOWN)


def flag_bytes(column: Any) -> NDArray[np.uint8]:
    """Return a boolean column without nulls as 0 and 1."""
    return flags(column).view(np.uint8)


def name_codes(column: Any, names: list[str], *, grow: bool = False) -> NDArray[np.int32]:
    """Return each text's index in `names`, or len(names); with `grow`, new names are appended."""
    known = {name: index for index, name in enumerate(names)}

    def code_of(text: str | None) -> int:
        if grow and text is not None and text not in known:
            known[text] = len(names)
            names.append(text)
        return known.get(text, len(names)) if text is not None else len(names)

    return codes(column, code_of).astype(np.int32)


def int64_column(values: NDArray[np.int64]) -> Any:
    """Return an Arrow column of int64."""
    return number_column(values, pa.int64())


def constant_column(text: str, count: int) -> Any:
    """Return an Arrow column that says the same `count` times."""
    encoded = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * len(encoded)
    buffers = [pa.py_buffer(offsets), pa.py_buffer(encoded * count)]
    return pa.StringArray.from_buffers(count, *buffers)
