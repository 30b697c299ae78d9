"""The only module that executes SQL: files from `analyzers/`, with bound values, in bounded memory.

An analysis is named by its place, such as `traffic/totals`; its table is named `totals`.
"""

from __future__ import annotations

import functools
import glob
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.errors import InputError, UsageError
from tracekit.paths import data_folder
from tracekit.store import TraceFolder

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DEFAULT_MEMORY_MIB = 512
# A thread scans a row group of a million rows, of up to eight columns at once.
THREAD_MEMORY_MIB = 192
MADE_BY = {
    "requests": "parse",
    "blocks": "classify",
    "working_set": "classify",
    "placement": "recommend",
}
MACROS_SQL = ("catalog/log_bucket", "catalog/log_bucket_low")
VIEWS_SQL = {"requests": "catalog/steps", "completion_files": "catalog/completions"}
REPLAY_TIMES_SQL = "catalog/replay_times"

_PARAMETER = re.compile(
    r"(?P<name>[a-z]\w*) \((?P<unit>[a-z]+), (?P<low>\d+) to (?P<high>\d+), "
    r"default (?P<default>\d+)\): (?P<meaning>.+)"
)
_COLUMN = re.compile(r"(?P<names>[a-z]\w*(?:, [a-z]\w*)*): (?P<meaning>.+)")


@dataclass(frozen=True)
class Parameter:
    """A value that a query takes: `$name`, a whole number of `unit` from `low` to `high`."""

    name: str
    unit: str
    low: int
    high: int
    default: int
    meaning: str


@dataclass(frozen=True)
class Query:
    """One file of `analyzers/`: its text and what its header says of it."""

    name: str
    text: str
    question: str
    grain: str
    reads: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    columns: Mapping[str, str]

    @property
    def table(self) -> str:
        """Name of the table the query makes: the last part of its name."""
        return self.name.rpartition("/")[2]

    def values(self, given: Mapping[str, int]) -> dict[str, int]:
        """Return the value of each parameter, the default where none is given.

        UsageError names a parameter that the query does not have, or a value out of its range.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        for name, value in given.items():
            if name not in known:
                names = ", ".join(known) or "none"
                raise UsageError(
                    f"{self.name} has no parameter '{name}'", hint=f"its parameters are: {names}"
                )
            if not known[name].low <= value <= known[name].high:
                raise UsageError(
                    f"{self.name}: {name} is {value} {known[name].unit}",
                    hint=f"from {known[name].low} to {known[name].high} are possible",
                )
        return {name: given.get(name, known[name].default) for name in known}


@functools.cache
def read(name: str) -> Query:
    """Read and parse one file; UsageError when there is no query of that name."""
    file = data_folder("analyzers") / f"{name}.sql"
    if not file.is_file():
        raise UsageError(f"there is no analysis '{name}'", hint="see: tracekit analyze --list")
    text = file.read_text()
    notes = _header_notes(text)
    return Query(
        name=name,
        text=text,
        question=_one(file, notes, "question"),
        grain=_one(file, notes, "grain"),
        reads=tuple(_one(file, notes, "reads").split(", ")),
        parameters=tuple(_parameter(file, note) for note in notes.get("parameter", [])),
        columns=_columns(file, notes.get("column", [])),
    )


def _header_notes(text: str) -> dict[str, list[str]]:
    """Gather the `-- key: value` lines of the leading comment; a line without key goes on."""
    notes: dict[str, list[str]] = {}
    values: list[str] = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        body = line[2:].strip()
        key, colon, value = body.partition(": ")
        if colon and key in ("question", "grain", "reads", "parameter", "column"):
            values = notes.setdefault(key, [])
            values.append(value)
        elif values:
            values[-1] += " " + body
    return notes


def _one(file: Path, notes: dict[str, list[str]], key: str) -> str:
    if len(notes.get(key, [])) != 1:
        raise InputError(f"{file}: the header must say '-- {key}:' exactly once")
    return notes[key][0]


def _parameter(file: Path, note: str) -> Parameter:
    match = _PARAMETER.fullmatch(note)
    if match is None:
        raise InputError(f"{file}: not 'name (unit, 1 to 9, default 5): meaning': {note}")
    low, high, default = (int(match[key]) for key in ("low", "high", "default"))
    return Parameter(match["name"], match["unit"], low, high, default, match["meaning"])


def _columns(file: Path, notes: list[str]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for note in notes:
        match = _COLUMN.fullmatch(note)
        if match is None:
            raise InputError(f"{file}: the column is not 'name, name: meaning': {note}")
        columns.update(dict.fromkeys(match["names"].split(", "), match["meaning"]))
    return columns


def connect(
    folder: TraceFolder, *, memory_mib: int = DEFAULT_MEMORY_MIB, threads: int | None = None
) -> DuckDBPyConnection:
    """Return an in-memory database with a view for each table that the folder holds now.

    DuckDB keeps within `memory_mib` and spills to a private folder beside the trace, which goes
    away with the connection. `completions` holds the completions of all replays, by name.
    """
    connection = empty(near=folder.path, memory_mib=memory_mib, threads=threads)
    for name in MADE_BY:
        place = "simulations/placement" if name == "placement" else name
        if folder.has(place):
            add_view(connection, name, folder.table(place))
    for file in sorted(folder.path.glob("findings/*.parquet")):
        add_view(connection, file.stem, file)
    replays = sorted(folder.path.glob("replays/*/completions.parquet"))
    if replays:
        add_view(connection, "completion_files", *replays)
        connection.execute(read(REPLAY_TIMES_SQL).text)
    return connection


def empty(
    *, near: Path, memory_mib: int = DEFAULT_MEMORY_MIB, threads: int | None = None
) -> DuckDBPyConnection:
    """Return a bounded in-memory database with the macros only; it spills beside `near`."""
    import duckdb

    parent = near.resolve().parent
    spill_parent = parent if os.access(parent, os.W_OK) else Path(tempfile.gettempdir())
    spill = tempfile.mkdtemp(prefix=f".{near.name}.duckdb.", dir=spill_parent)
    config: dict[str, Any] = {
        "memory_limit": f"{memory_mib}MiB",
        "threads": threads or _threads(memory_mib),
        "temp_directory": spill,
        "preserve_insertion_order": True,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    connection = duckdb.connect(":memory:", config=config)
    weakref.finalize(connection, shutil.rmtree, spill, ignore_errors=True)
    for name in MACROS_SQL:
        connection.execute(read(name).text)
    return connection


def _threads(memory_mib: int) -> int:
    return max(1, min(memory_mib // THREAD_MEMORY_MIB, len(os.sched_getaffinity(0))))


def add_view(connection: DuckDBPyConnection, name: str, *files: Path) -> None:
    """Make Parquet files visible as `name`, and the view of `analyzers/catalog` that stands on it.

    Any character may occur in a path. `completion_files` has each row's file as `filename`.
    """
    paths = [glob.escape(str(file)) for file in files]
    connection.read_parquet(paths, filename=name == "completion_files").create_view(name)
    if name in VIEWS_SQL:
        connection.execute(read(VIEWS_SQL[name]).text)


def run(connection: DuckDBPyConnection, name: str, **parameters: int) -> Any:
    """Run one file of `analyzers/` and return its result as an Arrow table.

    Parameters that are not given take the default of the file's header; UsageError names one that
    the file does not have. InputError says which stage makes a table that is missing.
    """
    import duckdb

    query = read(name)
    values = query.values(parameters)
    try:
        return connection.sql(query.text, params=values or None).to_arrow_table()
    except duckdb.CatalogException as error:
        missing = [table for table in query.reads if f"name {table} does not exist" in str(error)]
        if not missing:
            raise
        raise InputError(
            f"{name} needs the table '{missing[0]}', which this trace does not have yet",
            hint=f"run: tracekit {MADE_BY.get(missing[0], 'analyze')} TRACE",
        ) from None
