"""Compares two folders of results: tables by value, JSON by value, everything else by byte."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench.same_values.renamed import (
    NEW_KEYS,
    RENAMED_VALUES,
    REWORDED,
    VOLATILE_COLUMNS,
    VOLATILE_FILES,
    VOLATILE_KEYS,
)
from tests.bench.same_values.side import PLANS, PRINTED, renamed_words

MEASURED = "(measured)"
TEMPORARY = rb"/tmp/tracekit-\w+"
SHOWN = 5
"""Differences of a file that are printed."""


@dataclass
class Class:
    """Files of one kind: how many, how many values, and what differs."""

    files: int = 0
    values: int = 0
    differences: list[str] = field(default_factory=list)


def compare(old: Path, new: Path) -> dict[str, Class]:
    """Compare all files of both folders; return the classes by name."""
    classes: dict[str, Class] = {}
    olds, news = _files(old), _files(new)
    for place in sorted(olds | news):
        found = classes.setdefault(class_of(place), Class())
        found.files += 1
        if place not in news:
            found.differences.append(f"{place}: only the old version makes it")
        elif place not in olds:
            found.differences.append(f"{place}: only the new version makes it")
        else:
            pair = (old / place, new / place)
            values, differences = _compare_file(place, *pair, roots=(old, new))
            found.values += values
            found.differences += [f"{place}: {text}" for text in differences]
    return classes


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def class_of(place: str) -> str:
    """Return the name of the class of a file."""
    path = Path(place)
    if path.parts[0] in (PRINTED, PLANS):
        return f"{path.parts[0]}/*{path.suffix}"
    if path.suffix not in (".parquet", ".json"):
        return f"*{path.suffix}"
    folder = path.parts[1] if len(path.parts) > 2 else ""
    return f"{folder}/*{path.suffix}" if folder else path.name


def _compare_file(
    place: str, old: Path, new: Path, *, roots: tuple[Path, Path]
) -> tuple[int, list[str]]:
    if new.suffix == ".parquet":
        return compare_tables(place, pq.read_table(old), pq.read_table(new))
    if new.suffix == ".html":
        return compare_tables_of_page(old.read_text(), new.read_text())
    contents = [
        re.sub(TEMPORARY, b"TEMPORARY", path.read_bytes().replace(str(root).encode(), b"ROOT"))
        for path, root in zip((old, new), roots, strict=True)
    ]
    if new.suffix == ".json":
        values = [json.loads(content) for content in contents]
        return compare_json(place, *values)
    if new.suffix == ".txt":
        contents[0] = "\n".join(map(_reworded, contents[0].decode().split("\n"))).encode()
    if contents[0] == contents[1] or place in VOLATILE_FILES:
        return len(contents[0]), []
    sums = [hashlib.sha256(content).hexdigest()[:12] for content in contents]
    first = next(
        (n for n, (a, b) in enumerate(zip(*contents, strict=False)) if a != b),
        min(map(len, contents)),
    )
    sizes = " and ".join(
        f"{len(content):,} bytes {one}" for content, one in zip(contents, sums, strict=True)
    )
    return len(contents[0]), [f"{sizes}, the first difference at byte {first}"]


def _reworded(line: str) -> str:
    for old, new in REWORDED:
        line = re.sub(old, new, line)
    return line


def compare_tables(place: str, old: pa.Table, new: pa.Table) -> tuple[int, list[str]]:
    """Compare two tables column by column, value by value, in order."""
    names = old.column_names
    if names != new.column_names:
        gone = [name for name in names if name not in new.column_names]
        added = [name for name in new.column_names if name not in names]
        return 0, [f"columns: {gone} are gone, {added} are new" if gone or added else "their order"]
    differences = [
        f"{name}: {left}, now {right}"
        for name, left, right in zip(names, old.schema.types, new.schema.types, strict=True)
        if left != right
    ]
    volatile = _patterns(place, VOLATILE_COLUMNS)
    if "*" in volatile:
        return 0, differences
    if old.num_rows != new.num_rows:
        return 0, [*differences, f"{old.num_rows:,} rows, now {new.num_rows:,}"]
    for name, left, right in zip(names, old.columns, new.columns, strict=True):
        if not any(fnmatch(name, pattern) for pattern in volatile):
            differences += _compare_column(name, left, right)
    return old.num_rows * old.num_columns, differences


def _patterns(place: str, table: dict[str, tuple[str, ...]]) -> list[str]:
    """Return the patterns of a file."""
    return [one for files, found in table.items() if fnmatch(place, files) for one in found]


def _compare_column(name: str, left: pa.ChunkedArray, right: pa.ChunkedArray) -> Iterator[str]:
    if left.equals(right):
        return
    # Not a number is not equal to itself, and dictionaries may have their words in another order.
    pairs = enumerate(zip(left.to_pylist(), right.to_pylist(), strict=True))
    wrong = [(row, *pair) for row, pair in pairs if not _same(*pair)]
    if wrong:
        row, before, after = wrong[0]
        yield f"{name}: {len(wrong):,} rows, the first is {row}: {before!r}, now {after!r}"


def _same(old: Any, new: Any) -> bool:
    """Return whether two values are equal; sums of fractions may be taken in another order."""
    if isinstance(old, float) and isinstance(new, float) and math.isclose(old, new, rel_tol=1e-12):
        return True
    return repr(old) == repr(new)


def compare_json(place: str, old: Any, new: Any) -> tuple[int, list[str]]:
    """Compare two values of JSON, objects by their keys and lists in order."""
    patterns = _patterns(place, VOLATILE_KEYS)
    left, right = (dict(_leaves(value, "", patterns)) for value in (old, new))
    left = {path: _renamed_value(value) for path, value in left.items()}
    may_be_new = _patterns(place, NEW_KEYS)
    differences = []
    for path in [*left, *(path for path in right if path not in left)]:
        if path not in right:
            differences.append(f"{path}: {left[path]!r} is gone")
        elif path not in left:
            if right[path] or not any(fnmatch(path, pattern) for pattern in may_be_new):
                differences.append(f"{path}: {right[path]!r} is new")
        elif not _same(left[path], right[path]):
            differences.append(f"{path}: {left[path]!r}, now {right[path]!r}")
    return len(left), differences


def _renamed_value(value: Any) -> Any:
    return RENAMED_VALUES.get(value) or _reworded(value) if isinstance(value, str) else value


def _leaves(value: Any, path: str, volatile: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield path and value of each plain value, and of each empty list or object."""
    if any(fnmatch(path, pattern) for pattern in volatile):
        yield path, MEASURED
    elif isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else key, volatile)
    elif isinstance(value, list) and value:
        if path.startswith("asked") and all(isinstance(word, str) for word in value):
            value = sorted(renamed_words(value))  # the order of options means nothing
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{path}.{number}" if path else str(number), volatile)
    else:
        yield path, value


class _Tables(HTMLParser):
    """Collects the cells of the tables of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[str]] = []
        self._is_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a table or a cell; a column's own name is its title."""
        if tag == "table":
            self.tables.append([])
        self._is_cell = tag == "td"
        title = dict(attrs).get("title")
        if tag == "th" and title:
            self.tables[-1].append(f"column {title}")
        if self._is_cell:
            self.tables[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        """End a cell."""
        self._is_cell = self._is_cell and tag != "td"

    def handle_data(self, data: str) -> None:
        """Take the text of a cell."""
        if self._is_cell:
            self.tables[-1][-1] += data


def compare_tables_of_page(old: str, new: str) -> tuple[int, list[str]]:
    """Compare the tables that a report embeds; words and figures are not compared."""
    tables = []
    for text in (old, new):
        page = _Tables()
        page.feed(text)
        tables.append(page.tables)
    tables[0] = [[_reworded(cell) for cell in cells] for cells in tables[0]]
    if len(tables[0]) != len(tables[1]):
        return 0, [f"{len(tables[0])} tables, now {len(tables[1])}"]
    differences = []
    for number, (left, right) in enumerate(zip(*tables, strict=True)):
        if left != right:
            wrong = [pair for pair in zip(left, right, strict=False) if pair[0] != pair[1]]
            differences.append(f"table {number}: {len(left)} cells, now {len(right)}; {wrong[:3]}")
    return sum(map(len, tables[0])), differences
