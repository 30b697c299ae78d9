"""How numbers and text are written in the report; every function takes a value and returns text.

A value that is missing (None, NaN or NA) is written as an en dash, never as `nan` or `0`.
"""

from __future__ import annotations

import base64
import gzip
import math
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pandas as pd

from tracekit.escapes import cell
from tracekit.escapes import escape as escaped
from tracekit.tables import ROLE_NAMES
from tracekit.units import counted, format_duration, format_share, format_size

MISSING = "–"  # noqa: RUF001 - an en dash is what a table shows for "no value"

MINUS = "\N{MINUS SIGN}"

SPACE = "\N{NO-BREAK SPACE}"  # a number and its unit stay on one line


def is_missing(value: Any) -> bool:
    """Return whether a cell holds no value: None, NaN, NaT or NA."""
    if value is None:
        return True
    if isinstance(value, float):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")


def count(value: Any) -> str:
    """Write a whole number with thousands separators: 4,092,015."""
    return MISSING if is_missing(value) else f"{round(float(value)):,}"


def number(value: Any) -> str:
    """Write a number that need not be whole, with three significant digits: 5,310, 12.4, 0.031."""
    if is_missing(value):
        return MISSING
    value = float(value)
    if value == round(value) or abs(value) >= 100:
        return f"{round(value):,}"
    return f"{value:.3g}"


def data(length_bytes: Any) -> str:
    """Write an amount of data in binary units: 512 B, 4 KiB, 1.5 MiB."""
    if is_missing(length_bytes):
        return MISSING
    return format_size(length_bytes).replace(" ", SPACE)


def duration(time_ns: Any) -> str:
    """Write a time that is given in nanoseconds in the unit that suits it: 130 µs, 3 s."""
    if is_missing(time_ns):
        return MISSING
    return format_duration(time_ns).replace(" us", " µs").replace(" ", SPACE)


def share(ratio: Any) -> str:
    """Write a ratio of 0 to 1 in percent: 0.613 as 61.3%; a tiny share is never shown as zero.

    Nor is nearly all shown as all: 0.99997 is > 99.9%.
    """
    if is_missing(ratio):
        return MISSING
    text = format_share(float(ratio)).replace(" ", SPACE)
    return text.replace("-", MINUS)


def plural(amount: Any, noun: str) -> str:
    """Write a count with its noun: 1 request, 2 requests."""
    return (
        f"{count(amount)}{SPACE}{noun}" if round(amount) == 1 else f"{count(amount)}{SPACE}{noun}s"
    )


def per_cent(ratio: float) -> str:
    """Write a ratio in whole per cent."""
    return f"{ratio * 100:.0f}%"


def verb_plural(operation: str) -> str:
    """Write the plural of an operation: reads, flushes."""
    return f"{operation}es" if operation.endswith("sh") else f"{operation}s"


def listing(words: Sequence[str]) -> str:
    """Join words as a sentence does: a, b and c."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def shortened(name: str, most: int) -> str:
    """Return a name of at most so many characters; of a path its end, which tells more."""
    if len(name) <= most:
        return name
    return f"…{name[1 - most :]}" if name.startswith("/") else f"{name[: most - 1]}…"


def printable(text: Any) -> str:
    """Make text from a trace fit to be shown; see `tracekit.errors`."""
    return MISSING if is_missing(text) else escaped(str(text))


def anchor(text: str) -> str:
    """Make text fit to be part of an id: letters, digits and hyphens only."""
    return "".join(
        character if character.isascii() and character.isalnum() else f"-{ord(character):x}-"
        for character in text
    )


def role_title(role: str) -> str:
    """Return how a role is called in text."""
    return ROLE_NAMES.get(role, role)


def in_order(roles: Iterable[str]) -> list[str]:
    """Return the different roles that occur, in the fixed order."""
    present = set(roles)
    return [role for role in ROLE_NAMES if role in present]


def role_and_all(role: str) -> str:
    """Return how a role, or all of them, begins a sentence."""
    return "All roles together" if role == "all" else role_title(role).capitalize()


class _Sentence(string.Formatter):
    """Formats with the writers of this module: `{gap_ns:duration} in the {role:role}`."""

    WRITERS: Mapping[str, Callable[[Any], str]] = {
        "count": count,
        "number": number,
        "data": data,
        "duration": duration,
        "share": share,
        "text": printable,
        "verbs": verb_plural,
        "role": role_title,
        "Role": role_and_all,
    }

    def format_field(self, value: Any, format_spec: str) -> str:
        write = self.WRITERS.get(format_spec)
        return write(value) if write else str(super().format_field(value, format_spec))


def sentence(text: str, row: Mapping[Any, Any] | pd.Series[Any] | None = None, **more: Any) -> str:
    """Fill the fields of a text with the values of a row and more, each as its field says."""
    return _Sentence().vformat(text, (), {**(row if row is not None else {}), **more})


def sentences(text: str, table: pd.DataFrame) -> list[str]:
    """Fill the fields of a text with the values of each row of a table."""
    return [sentence(text, row) for row in table.to_dict("records")]


SHOWN_ROWS = 100
OPEN_ROWS = 12
CSV_LIMIT_BYTES = 1 << 20
PACKED_BYTES = 4096  # a longer one is packed, and unpacked by a script
PACKED = "data:application/gzip;base64,"

_WRITERS: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("_ns", duration),
    ("_bytes", data),
    ("_bytes_per_flush", data),
    ("_ratio", share),
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
    repeat_count: int = 0
    """Of them not shown, as they only repeat their neighbours at another capacity."""


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


LEAST_FOR_P99 = 100
"""Of fewer requests the 99th percentile by nearest rank is the largest."""


def too_few(table: pd.DataFrame) -> list[str]:
    """Say how many rows, points of a curve of 99th percentiles, are of too few requests for one."""
    few = int((table["request_count"] < LEAST_FOR_P99).sum())
    if not few:
        return []
    return [
        f"{few:,} of {counted(len(table), 'point')} are of fewer than {LEAST_FOR_P99} requests:"
        " there it is the time of the slowest."
    ]


def largest(table: pd.DataFrame, column: str) -> Any:
    """Return the first row with the largest value of a column, missing values left out."""
    return table.iloc[int(table[column].astype(float).argmax())]


def shown(
    table: pd.DataFrame, *, meanings: Mapping[str, str] | None = None, limit: int = SHOWN_ROWS
) -> Shown:
    """Format the first rows of a table; the meanings of columns become their tool tips."""
    meanings = meanings or {}
    columns = []
    row_count = len(table)
    table = without_repeats(table)
    cells = []
    for name in table.columns:
        values = table[name].head(limit)
        is_number = pd.api.types.is_numeric_dtype(values) or _holds_numbers(values)
        write = _writer(str(name), values, is_number=is_number)
        columns.append(
            Column(column_title(str(name)), str(name), meanings.get(str(name), ""), is_number)
        )
        cells.append([_cell(value, write) for value in values])
    rows = list(zip(*cells, strict=True))
    return Shown(columns, rows, row_count, row_count - len(table))


def without_repeats(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table without rows that differ from both neighbours by the capacity alone.

    What is the same at all capacities, such as the base device's time, has its two ends.
    """
    if "capacity_bytes" not in table.columns:
        return table
    values = table.drop(columns="capacity_bytes").map(repr)
    repeats = (values == values.shift()).all(axis=1)
    return table[~(repeats & repeats.shift(-1, fill_value=False))]


def _cell(value: Any, write: Callable[[Any], str]) -> str:
    """Write a value, or each value of a list."""
    return ", ".join(write(one) for one in value) if isinstance(value, list) else write(value)


def column_title(name: str) -> str:
    """Return a column's name as a heading: `latency p99`, for its unit stands in the cells."""
    words = name.removesuffix("_ns")
    words = f"{words.removesuffix('_ratio')}_share" if words.endswith("_ratio") else words
    return words.replace("_", " ")


def csv_link(table: pd.DataFrame) -> str:
    """Return a data: URI of the whole table as CSV, a long one packed by gzip.

    Nothing when it is too large to embed.
    """
    texts = table.select_dtypes(exclude=["number", "bool", "datetime", "timedelta"])
    inert = table.assign(**{str(name): texts[name].map(_csv_cell) for name in texts})
    names = [cell(str(name)) for name in table]
    content = inert.to_csv(index=False, lineterminator="\n", header=names)
    if len(content) > CSV_LIMIT_BYTES:
        return ""
    if len(content) > PACKED_BYTES:
        packed = gzip.compress(content.encode(), mtime=0)
        return f"{PACKED}{base64.b64encode(packed).decode()}"
    return f"data:text/csv;charset=utf-8,{quote(content, safe=',:/')}"


def _csv_cell(value: Any) -> Any:
    return cell(value) if isinstance(value, str) else value


def _holds_numbers(values: pd.Series[Any]) -> bool:
    """Integers with gaps arrive as Python objects."""
    present = values.dropna()
    return not present.empty and all(isinstance(value, int | float) for value in present)


def _writer(name: str, values: pd.Series[Any], *, is_number: bool) -> Callable[[Any], str]:
    for suffix, write in _WRITERS:
        if name.endswith(suffix):
            return write
    if not is_number:
        return printable
    whole = all(float(value).is_integer() for value in values.dropna())
    return count if whole else number
