"""Batches of requests of the columns that a foreign format knows; the others say nothing."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit.columns import number_column, word_array
from tracekit.schema import REQUESTS

FEWEST_KEPT = 1 << 18
MOST_KEPT = 32


def request_batch(
    numbers: Mapping[str, NDArray[Any]],
    words: Mapping[str, tuple[NDArray[Any], Sequence[str]]],
    *,
    same: Mapping[str, int | str],
    count: int,
) -> Any:
    """Return a batch of `count` requests; columns not named are null, or 0 and false.

    Of columns that may be null a negative number is null; words are codes and what they stand for;
    `same` has columns of one value throughout, where `numbers` and `words` do not have them.
    """
    columns = []
    for field in REQUESTS:
        if field.name in words:
            codes, names = words[field.name]
            indices = _column(codes, pa.int32(), may_be_null=field.nullable)
            columns.append(pa.DictionaryArray.from_arrays(indices, word_array(names)))
        elif field.name in numbers:
            columns.append(_column(numbers[field.name], field.type, may_be_null=field.nullable))
        else:
            value = same.get(field.name, None if field.nullable else 0)
            columns.append(_throughout(field.type, value, count=count))
    return pa.RecordBatch.from_arrays(columns, schema=REQUESTS)


def _throughout(kind: Any, value: int | str | None, *, count: int) -> Any:
    """Return a column of one value throughout; such columns share their memory.

    They are most of a row: a format of another tool knows few of the columns.
    """
    kept = max(FEWEST_KEPT, 1 << (count - 1).bit_length())
    return _kept(kind, value, kept).slice(0, count)


@functools.lru_cache(maxsize=MOST_KEPT)
def _kept(kind: Any, value: int | str | None, count: int) -> Any:
    if value is None:
        return pa.nulls(count, kind)
    if isinstance(value, str):
        zeros = number_column(np.zeros(count, np.int32), pa.int32())
        return pa.DictionaryArray.from_arrays(zeros, word_array([value]))
    return _column(np.full(count, value, np.int64), kind, may_be_null=False)


def _column(values: NDArray[Any], kind: Any, *, may_be_null: bool) -> Any:
    if pa.types.is_boolean(kind):
        bits = np.packbits(values != 0, bitorder="little")
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(bits)])
    if not may_be_null or values.min(initial=0) >= 0:
        return number_column(values, kind)
    exact = np.ascontiguousarray(values, kind.to_pandas_dtype())
    bits = np.packbits(values >= 0, bitorder="little")
    return pa.Array.from_buffers(kind, len(exact), [pa.py_buffer(bits), pa.py_buffer(exact)])
