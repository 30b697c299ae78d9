"""From a table to cells that can be read, and to a CSV that can be downloaded.

The unit of a column follows from the end of its name, as everywhere in the project.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracekit.report import format as fmt

if TYPE_CHECKING:
    import pandas as pd

SHOWN_ROWS = 100
OPEN_ROWS = 12
CSV_LIMIT_BYTES = 1 << 20

_WRITERS: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("_ns", fmt.duration),
    ("_bytes", fmt.data),
    ("_bytes_per_flush", fmt.data),
    ("_ratio", fmt.share),
)


@dataclass(frozen=True)
class Column:
    """A column as shown: its title, the name and meaning it has in the table, its alignment."""

    title: str
    name: str
    meaning: str
    is_number: bool


@dataclass(frozen=True)
class Shown:
    """A table as shown: columns, formatted cells, and how many rows there are in all."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    row_count: int


def rows(table: pd.DataFrame) -> Iterator[Any]:
    """Yield the rows as named tuples; what type a column has is the schema's to say."""
    yield from table.itertuples(index=False)


def every_window(
    table: pd.DataFrame, length_ns: float, *, values: Sequence[str], missing: float
) -> pd.DataFrame:
    """Return a row for each role and window up to the last, also where nothing happened.

    A curve over windows that are left out would show a slope where there was silence; `values`
    hold `missing` there.
    """
    import pandas as pd

    if table.empty or length_ns <= 0:
        return table
    number = (table["window_ns"] / length_ns).round().astype(int)
    names = ["role", "number"]
    index = pd.MultiIndex.from_product(
        [sorted(set(table["role"])), range(int(number.max()) + 1)], names=names
    )
    kept = table.assign(number=number).set_index(names)[list(values)].astype(float)
    full = kept.reindex(index, fill_value=missing).reset_index()
    return full.assign(window_ns=full["number"] * length_ns).drop(columns="number")


def largest(table: pd.DataFrame, column: str) -> Any:
    """Return the first row with the largest value of a column, missing values left out."""
    return table.iloc[int(table[column].astype(float).argmax())]


def shown(
    table: pd.DataFrame, *, meanings: Mapping[str, str] | None = None, limit: int = SHOWN_ROWS
) -> Shown:
    """Format the first rows of a table; the meanings of columns become their tool tips."""
    import pandas as pd

    meanings = meanings or {}
    columns = []
    cells = []
    for name in table.columns:
        values = table[name].head(limit)
        is_number = pd.api.types.is_numeric_dtype(values) or _holds_numbers(values)
        write = _writer(str(name), values, is_number=is_number)
        columns.append(Column(title(str(name)), str(name), meanings.get(str(name), ""), is_number))
        cells.append([_cell(value, write) for value in values])
    rows = list(zip(*cells, strict=True))
    return Shown(columns, rows, len(table))


def _cell(value: Any, write: Callable[[Any], str]) -> str:
    """Write a value, or each value of a list."""
    return ", ".join(write(one) for one in value) if isinstance(value, list) else write(value)


def title(name: str) -> str:
    """Return a column's name as a heading: `latency p99`, for its unit stands in the cells."""
    words = name.removesuffix("_ns")
    words = f"{words.removesuffix('_ratio')}_share" if words.endswith("_ratio") else words
    return words.replace("_", " ")


def csv_link(table: pd.DataFrame) -> str:
    """Return a data: URI of the whole table as CSV, or nothing when it is too large to embed."""
    content = table.to_csv(index=False, lineterminator="\n").encode()
    if len(content) > CSV_LIMIT_BYTES:
        return ""
    return f"data:text/csv;base64,{base64.b64encode(content).decode()}"


def _holds_numbers(values: pd.Series[Any]) -> bool:
    """Integers with gaps arrive as Python objects."""
    present = values.dropna()
    return not present.empty and all(isinstance(value, int | float) for value in present)


def _writer(name: str, values: pd.Series[Any], *, is_number: bool) -> Callable[[Any], str]:
    for suffix, write in _WRITERS:
        if name.endswith(suffix):
            return write
    if not is_number:
        return fmt.printable
    whole = all(float(value).is_integer() for value in values.dropna())
    return fmt.count if whole else fmt.number
