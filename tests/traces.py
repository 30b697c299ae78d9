"""Small trace folders and tables, written from rows that name only what matters."""

import json
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tracekit.store import TraceFolder, write_json, write_table
from tracekit.tables import REQUESTS, SCHEMA_VERSION

Row = dict[str, Any]
# What a request has that does not say it, where that is neither null, 0 nor False.
REQUEST: Row = {"device": "sda", "length_bytes": 4096, "operation": "write", "role": "unknown"}


def filled(
    schema: pa.Schema, rows: Iterable[Mapping[str, Any]], *, nullable: bool = False, **values: Any
) -> pa.Table:
    """Make a table: a column that a row leaves out has its value of `values`, else null or 0."""
    empty = {field.name: None if field.nullable else _zero(field.type) for field in schema}
    full = [{**empty, **values, "request_id": at, **row} for at, row in enumerate(rows)]
    if nullable:
        schema = pa.schema([field.with_nullable(True) for field in schema])
    return pa.Table.from_pylist(full, schema)


def _zero(kind: pa.DataType) -> Any:
    if pa.types.is_boolean(kind):
        return False
    return "" if pa.types.is_dictionary(kind) or pa.types.is_string(kind) else 0


def write_folder(path: Path, requests: Iterable[Mapping[str, Any]], **info: Any) -> TraceFolder:
    """Write a trace folder with these requests, and with `info` in its trace.json."""
    path.mkdir(parents=True, exist_ok=True)
    write_table(path / "requests.parquet", filled(REQUESTS, requests, depth=1, **REQUEST))
    write_json(path / "trace.json", {"schema": SCHEMA_VERSION, "layout": [], **info})
    return TraceFolder(path)


def disk(device: str, size_sectors: int, *, minor: int = 0) -> Row:
    """Return what trace.json says of a device."""
    place = {"device": device, "major": 8, "minor": minor, "size_sectors": size_sectors}
    return {**place, "logical_sector_bytes": 512, "rotational": None}


def partition(device: str, number: int, role: str, sectors: range, **more: Any) -> Row:
    """Return an entry of the layout in trace.json."""
    place = {"device": device, "partition": f"8,{number}", "name": f"{device}{number}"}
    size = {"start_sector": sectors.start, "sectors": len(sectors), "role": role}
    return {**place, **size, "filesystem": None, "mount": None, "evidence": "layout.json", **more}


def rows_of(file: Path) -> list[Row]:
    """Return the rows of a Parquet file."""
    rows: list[Row] = pq.read_table(file).to_pylist()
    return rows


def json_of(file: Path) -> Row:
    """Return the object of a JSON file."""
    content: Row = json.loads(file.read_text())
    return content


def written(file: Path, text: str) -> Path:
    """Write a text file and return its path."""
    file.write_text(text)
    return file


def recencies(pages: Iterable[Hashable]) -> list[int]:
    """Return for each use of a page how many pages ago it was used last; 0 if it is new."""
    stack: list[Hashable] = []
    found = []
    for page in pages:
        found.append(stack[::-1].index(page) + 1 if page in stack else 0)
        stack = [other for other in stack if other != page] + [page]
    return found
