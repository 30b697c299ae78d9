"""Trace folders made from small CSV files, in which a column that is left out has its default."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracekit import tables as schema
from tracekit.query import read
from tracekit.store import TraceFolder, write_json, write_table
from tracekit.tables import FILE_COMPLETIONS, SWEEP_OPERATIONS, TABLES

FIXTURES = Path(__file__).parent
PLACES = {table.name: table.place for table in TABLES}
SCHEMAS = {
    **{table.name: table.columns for table in TABLES},
    "requests": schema.REQUESTS,
    "blocks": schema.BLOCKS,
    "working_set": schema.WORKING_SET,
    "completions": schema.COMPLETIONS,
    "file_completions": FILE_COMPLETIONS,
    "sweep_operations": SWEEP_OPERATIONS,
}
# Tables of which each replay or run has its own: the column that names it, the file, its name
# where the table has no rows.
OF_EACH = {
    "completions": ("replay", "replays/{}/completions.parquet", "latest"),
    "file_completions": ("replay", "replays/{}/file_completions.parquet", "latest"),
    "sweep_operations": ("run_id", "files/operations/{}.parquet", "none-0"),
}
# What a column holds where the CSV file has no such column, if not null, 0, false or "".
DEFAULTS = {
    "device": "sda",
    "length_bytes": 4096,
    "operation": "write",
    "role": "fs",
    "depth": 1,
    "reads": 1,
    "sectors": 8,
    "temperature": "cold",
    "status": "done",
}


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def table(name: str, rows: list[dict[str, str]]) -> pa.Table:
    """Make a table of the schema from the texts of a CSV file; an empty text is null."""
    columns = [
        [_value(field, row, number) for number, row in enumerate(rows)] for field in SCHEMAS[name]
    ]
    arrays = [
        pa.array(values, type=field.type)
        for values, field in zip(columns, SCHEMAS[name], strict=True)
    ]
    # A few rows break the contract on purpose, such as a skipped replay without a submit time.
    fields = [field.with_nullable(True) for field in SCHEMAS[name]]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _value(field: pa.Field, row: dict[str, str], number: int) -> Any:
    if field.name == "request_id" and field.name not in row:
        return number
    text = row.get(field.name)
    if text is None:
        return DEFAULTS.get(field.name, None if field.nullable else _zero(field.type))
    if text == "":
        return None
    if pa.types.is_integer(field.type):
        return int(text)
    if pa.types.is_floating(field.type):
        return float(text)
    return {"true": True, "false": False}[text] if pa.types.is_boolean(field.type) else text


def _zero(kind: pa.DataType) -> Any:
    if pa.types.is_boolean(kind):
        return False
    return "" if pa.types.is_dictionary(kind) or pa.types.is_string(kind) else 0


def make(path: Path, tables: dict[str, list[dict[str, str]]]) -> TraceFolder:
    """Write a trace folder with these tables."""
    path.mkdir()
    write_json(path / "trace.json", {"schema": schema.SCHEMA_VERSION})
    for name, rows in tables.items():
        if name in OF_EACH:
            key, place, default = OF_EACH[name]
            for one in sorted({row[key] for row in rows}) or [default]:
                own = [row for row in rows if row[key] == one]
                write_table(path / place.format(one), table(name, own))
        else:
            write_table(path / f"{PLACES[name]}.parquet", table(name, rows))
    return TraceFolder(path)


def fixture_tables(name: str) -> dict[str, list[dict[str, str]]]:
    """Read a query's fixture: input.csv is the first table it reads, others have their names."""
    first, *others = read(name).reads
    place = FIXTURES / name
    return {
        first: rows_of(place / "input.csv"),
        **{other: rows_of(place / f"{other}.csv") for other in others},
    }


def fixture_parameters(name: str) -> dict[str, int]:
    file = FIXTURES / name / "parameters.json"
    return dict(json.loads(file.read_text())) if file.exists() else {}
