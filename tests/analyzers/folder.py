"""Trace folders made from small CSV files, in which a column that is left out has its default."""

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.traces import Row, filled, json_of
from tracekit import query
from tracekit import tables as schema
from tracekit.query import read
from tracekit.store import TraceFolder, write_json, write_table
from tracekit.tables import TABLES

FIXTURES = Path(__file__).parent
PLACES = {table.name: table.place for table in TABLES}
OF_RUNS = (schema.REPLAYED, schema.REPLAY_OBSERVED, schema.FILES_REPLAYED, schema.OPERATIONS_SWEPT)
SCHEMAS = {table.name: table.columns for table in (*TABLES, *OF_RUNS)}
# Tables of which each replay or run has its own: the column that names it, the file, its name
# where the table has no rows.
OF_EACH = {
    "completions": ("replay", "replays/{}/completions.parquet", "latest"),
    "observed": ("replay", "replays/{}/observed.parquet", "latest"),
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


def csv_rows(file: Path) -> list[Row]:
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def table(name: str, rows: list[Row]) -> pa.Table:
    """Make a table of the schema from values or the texts of a CSV file; an empty text is null."""
    kinds = {field.name: field.type for field in SCHEMAS[name]}
    typed = [
        {key: _value(kinds[key], value) for key, value in row.items() if key in kinds}
        for row in rows
    ]
    # A few rows break the contract on purpose, such as a skipped replay without a submit time.
    return filled(SCHEMAS[name], typed, nullable=True, **DEFAULTS)


def _value(kind: pa.DataType, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value == "":
        return None
    if pa.types.is_integer(kind):
        return int(value)
    if pa.types.is_floating(kind):
        return float(value)
    return {"true": True, "false": False}[value] if pa.types.is_boolean(kind) else value


def make(path: Path, tables: dict[str, list[Row]]) -> TraceFolder:
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


def fixture_tables(name: str) -> dict[str, list[Row]]:
    """Read a query's fixture: input.csv is the first table it reads, others have their names."""
    first, *others = read(name).reads
    place = FIXTURES / name
    return {
        **({} if name.startswith("set/") else {"requests": []}),  # which completions need
        first: csv_rows(place / "input.csv"),
        **{other: csv_rows(place / f"{other}.csv") for other in others},
    }


def fixture_parameters(name: str) -> dict[str, int]:
    file = FIXTURES / name / "parameters.json"
    return dict(json_of(file)) if file.exists() else {}


INTEGERS = ("_ns", "_bytes", "_count", "_number", "_id")
TEXTS = ("volume", "device", "operation", "role", "step", "placement", "measure")


def set_database(tables: dict[str, list[Row]]) -> Any:
    """Return a database with tables of a trace set; a column's name says what it holds."""
    connection = query.empty(near=FIXTURES)
    for name, rows in tables.items():
        fields = [(one, _kind(one)) for one in columns_of(name)]
        typed = [{key: _value(kind, row.get(key, "")) for key, kind in fields} for row in rows]
        table = pa.Table.from_pylist(typed, pa.schema(fields))
        query.add_table(connection, name, table=table)
    return connection


def _kind(column: str) -> pa.DataType:
    if column in TEXTS:
        return pa.string()
    return pa.int64() if column.endswith(INTEGERS) else pa.float64()


def columns_of(name: str) -> list[str]:
    """Return the columns of a table of a set that its fixtures have."""
    if name == "volume_measures":
        return [*read("set/volume_measures").columns]
    (header, *_) = (
        file.read_text().partition("\n")[0]
        for place in sorted((FIXTURES / "set").iterdir())
        for file in [place / f"{name}.csv", place / "input.csv"]
        if file.is_file() and (file.stem == name or read(f"set/{place.name}").reads[0] == name)
    )
    return header.split(",")
