"""Columns of tables in the form that the simulation kernels take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tracekit import columns
from tracekit.schema import ROLES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

UNKNOWN = -1
Item = TypeVar("Item")


def row_count(file: Path) -> int:
    """Return a Parquet file's number of rows; raise InputError when it is none."""
    return int(columns.open_table(file).metadata.num_rows)


def read_columns(file: Path, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the columns of a Parquet file by name, a quarter of a million rows at a time.

    Raise InputError when the file cannot be read or lacks one of them.
    """
    for batch in columns.read_batches(file, names):
        yield {name: batch.column(name) for name in names}


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield items of which the next one is made meanwhile, on another thread."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


def numbers(column: Any) -> NDArray[np.int64]:
    """Return an int64 column with UNKNOWN in place of nulls."""
    return columns.ints(column, if_null=UNKNOWN)


def flags(column: Any) -> NDArray[np.uint8]:
    """Return a boolean column without nulls as 0 and 1."""
    import numpy as np

    return columns.flags(column).view(np.uint8)


def codes(column: Any, names: list[str], *, grow: bool = False) -> NDArray[np.int32]:
    """Return each text's index in `names`, or len(names); with `grow`, new names are appended."""
    import numpy as np

    known = {name: index for index, name in enumerate(names)}

    def code_of(text: str | None) -> int:
        if grow and text is not None and text not in known:
            known[text] = len(names)
            names.append(text)
        return known.get(text, len(names)) if text is not None else len(names)

    return columns.codes(column, code_of).astype(np.int32)


def role_codes(column: Any) -> NDArray[np.int32]:
    """Return each role's index in schema.ROLES; a name that is none of them is `unknown`."""
    import numpy as np

    return np.minimum(codes(column, list(ROLES)), ROLES.index("unknown"))


def number_column(values: NDArray[np.int64]) -> Any:
    """Return an Arrow column of int64."""
    import pyarrow as pa

    return columns.number_column(values, pa.int64())


def text_column(text: str, count: int) -> Any:
    """Return an Arrow column that says the same `count` times."""
    import numpy as np
    import pyarrow as pa

    encoded = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * len(encoded)
    buffers = [pa.py_buffer(offsets), pa.py_buffer(encoded * count)]
    return pa.StringArray.from_buffers(count, *buffers)
