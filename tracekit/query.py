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
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection

from tracekit import replay_buckets, request_buckets
from tracekit.errors import InputError, TracekitError, UsageError, first_line
from tracekit.escapes import shell_word
from tracekit.metadata import impossible_values
from tracekit.paths import data_folder
from tracekit.prefetch import STOP_SECONDS
from tracekit.replay_buckets import WINDOW_COUNT
from tracekit.request_buckets import columns_of
from tracekit.store import TraceFolder, scratch_folder
from tracekit.tables import LATER_COLUMNS, MADE_BY, TABLES

_PARAMETER = re.compile(
    r"(?P<name>[a-z]\w*) \((?P<unit>[a-z]+), (?P<low>\d+) to (?P<high>\d+), "
    r"default (?P<default>\d+)\): (?P<meaning>.+)"
)
_KEYS = ("question", "grain", "reads", "counted", "parameter", "column")
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
    counted: tuple[str, ...] = ()
    """Tables that one pass over the requests makes (tracekit/request_buckets.py)."""

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

    def bound(self, values: Mapping[str, int]) -> str:
        """Return the text with values in place of its parameters, which runs as it is."""
        known = {parameter.name: parameter.default for parameter in self.parameters} | {**values}
        return re.sub(r"\$(\w+)", lambda found: str(int(known[found[1]])), self.text)


@functools.cache
def read(name: str) -> Query:
    """Read and parse one file; UsageError when there is no query of that name."""
    file = data_folder("analyzers") / f"{name}.sql"
    if not file.is_file():
        raise UsageError(f"there is no analysis '{name}'", hint="see: tracekit analyze --list")
    return parse(name, file.read_text())


def parse(name: str, text: str) -> Query:
    """Make a query of a file's text; InputError says what its header lacks."""
    file = f"analyzers/{name}.sql"
    notes = _header_notes(text)
    for key in ("question", "grain", "reads"):
        if len(notes.get(key, [])) != 1:
            raise InputError(f"{file}: the header must say '-- {key}:' exactly once")
    columns = {
        column: meaning
        for names, meaning in _matches(file, notes, "column", _COLUMN, "name, name: meaning")
        for column in names.split(", ")
    }
    form = "name (unit, 1 to 9, default 5): meaning"
    parameters = tuple(
        Parameter(name, unit, int(low), int(high), int(default), meaning)
        for name, unit, low, high, default, meaning in _matches(
            file, notes, "parameter", _PARAMETER, form
        )
    )
    question, grain, reads = (notes[key][0] for key in ("question", "grain", "reads"))
    counted = tuple(table for note in notes.get("counted", ()) for table in note.split(", "))
    tables = tuple(reads.split(", "))
    return Query(name, text, question, grain, tables, parameters, columns, counted)


def _header_notes(text: str) -> dict[str, list[str]]:
    """Gather the `-- key: value` lines of the leading comment; others go on with a value.

    An empty comment line ends the last value, so that what follows is only a comment.
    """
    notes: dict[str, list[str]] = {}
    values: list[str] = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        body = line[2:].strip()
        key, colon, value = body.partition(": ")
        if colon and key in _KEYS:
            values = notes.setdefault(key, [])
            values.append(value)
        elif not body:
            values = []
        elif values:
            values[-1] += " " + body
    return notes


def _matches(
    file: str, notes: dict[str, list[str]], key: str, pattern: re.Pattern[str], form: str
) -> Iterator[tuple[str, ...]]:
    """Yield the parts of each note of the key; InputError for one that has not the form."""
    for note in notes.get(key, []):
        match = pattern.fullmatch(note)
        if match is None:
            raise InputError(f"{file}: the {key} is not '{form}': {note}")
        yield match.groups()


DuckDBPyRelation = duckdb.DuckDBPyRelation
# The copy of a result costs less than the second planning of a relation (_executed).
warnings.filterwarnings("ignore", message="Arrow output on a DB-API result")
DEFAULT_MEMORY_MIB = 512
# A thread scans a row group of a million rows, of up to eight columns at once.
THREAD_MEMORY_MIB = 192
READER_ROWS = 65_536
MACROS_SQL = (
    "lib/sector_bytes",
    "lib/block_bytes",
    "lib/is_possible",
    "lib/log_bucket",
    "lib/log_bucket_low",
    "lib/no_value",
    "lib/merged_percentiles_of",
    "lib/percentiles_of",
    "lib/merged_distribution_of",
    "lib/distribution_of",
    "lib/request_kind",
    "lib/certified_requests",
)
# The views that stand on a table, in the order in which they are made.
VIEWS_SQL = {
    "requests": (
        "lib/step_durations",
        "lib/steps",
        "lib/gaps_of",
        "lib/gaps",
        "lib/volume_windows",
    ),
    "completion_files": ("lib/completions", "lib/replay_times"),
    "observed_files": ("lib/observed",),
    "file_completion_files": ("lib/file_completions",),
    "sweep_operation_files": ("lib/sweep_operations",),
    "set_totals_files": ("lib/set_totals",),
    "set_skew_files": ("lib/set_skew",),
    "set_sequentiality_files": ("lib/set_sequentiality",),
    "set_distribution_files": ("lib/set_distribution",),
    "set_activity_files": ("lib/set_activity",),
    "volume_measures": ("lib/volume_values",),
    "file_runs": ("lib/dax_steps",),
}
# Those that stand on several tables, made when the last of them is there.
JOINED_SQL = {
    "lib/files_of_blocks": ("blocks", "file_extents"),
    "lib/files_of_requests": ("requests", "file_extents"),
    "lib/dax_ratios": ("file_runs", "file_comparisons"),
}
FILES_OF_VIEWS = {
    "completion_files": "replays/*/completions.parquet",
    "observed_files": "replays/*/observed.parquet",
    "file_completion_files": "replays/*/file_completions.parquet",
    "sweep_operation_files": "files/operations/*.parquet",
}

_FINDING = re.compile(r"[a-z][a-z0-9_]{0,63}")
_TAKEN = {
    *(table.name for table in TABLES),
    *request_buckets.LEAST_BITS,
    *replay_buckets.LEAST_BITS,
    *VIEWS_SQL,
    *(Path(view).name for views in (*VIEWS_SQL.values(), JOINED_SQL) for view in views),
}
"""Names of tables and views that are no findings."""
_WORDS = re.compile(r"\w+")
_EXPLAIN = re.compile(
    r"\s*explain\s+(analyze\s+)?(\([^()]*\)\s*)?(?P<statement>.*)", re.IGNORECASE | re.DOTALL
)


def connect(
    folder: TraceFolder,
    *,
    memory_mib: int = DEFAULT_MEMORY_MIB,
    threads: int | None = None,
    only: Collection[str] | None = None,
) -> DuckDBPyConnection:
    """Return an in-memory database with a view for each table that the folder holds now.

    With `only` it has those of these names, each of which takes milliseconds. DuckDB keeps within
    `memory_mib` and spills to a private folder beside the trace, which goes away with the
    connection. `completions` holds the completions of all replays, by name.
    """
    return _open(folder, memory_mib=memory_mib, threads=threads, only=only)[0]


def connect_locked(folder: TraceFolder, *, memory_mib: int) -> DuckDBPyConnection:
    """Return the same database for statements of a user: it opens no file but the tables."""
    connection, files = _open(folder, memory_mib=memory_mib)
    _execute(connection, "lib/lock", paths=[str(file) for file in files])
    return connection


def _open(
    folder: TraceFolder,
    *,
    memory_mib: int,
    threads: int | None = None,
    only: Collection[str] | None = None,
) -> tuple[DuckDBPyConnection, list[Path]]:
    """Return the connection with a view for each table of the folder, and their files."""
    folder.check_tables(MADE_BY)
    connection = empty(near=folder.path, memory_mib=memory_mib, threads=threads)
    tables = _tables(folder, _plain_path(connection, folder.path))
    for name, files in tables.items():
        if only is None or name in only:
            add_view(connection, name, *files)
    return connection, [file for files in tables.values() for file in files]


def _execute(connection: DuckDBPyConnection, name: str, **values: Any) -> None:
    """Execute all statements of a file; each takes the values that it has parameters for."""
    for statement in connection.extract_statements(read(name).text):
        connection.execute(
            statement, {name: values[name] for name in statement.named_parameters} or None
        )


def _tables(folder: TraceFolder, root: Path) -> dict[str, list[Path]]:
    """Return the files of the tables that the folder holds now, by the name of their view.

    The database opens them by their path; that no link leads there is seen right before.
    """
    places = [table.place for table in TABLES if folder.has(table.place)]
    found = {Path(place).name: [root / f"{place}.parquet"] for place in places}
    for file in folder.files("findings/*.parquet"):
        _check_name(file)
        found[file.stem] = [root / file.relative_to(folder.path)]
    for name, pattern in FILES_OF_VIEWS.items():
        if files := folder.files(pattern):
            found[name] = [root / file.relative_to(folder.path) for file in files]
    return found


def _check_name(finding: Path) -> None:
    """Raise InputError for a finding that would stand for a table or a view of another name."""
    if finding.stem in _TAKEN or not _FINDING.fullmatch(finding.stem):
        raise InputError(
            f"{finding}: a finding cannot have the name {finding.stem!r}",
            hint=f"remove it: rm {shell_word(str(finding))}",
        )


def _plain_path(connection: DuckDBPyConnection, path: Path) -> Path:
    """Return a path to the folder that DuckDB takes for no pattern.

    Escaping the pattern would do for reading, but a locked database knows its files by their plain
    names. The link that stands in for such a folder goes away with the connection.
    """
    absolute = path.absolute()
    if not glob.has_magic(str(absolute)):
        return absolute
    links = tempfile.mkdtemp(prefix="tracekit.")
    weakref.finalize(connection, shutil.rmtree, links, ignore_errors=True)
    link = Path(links) / "trace"
    link.symlink_to(absolute)
    return link


def empty(
    *, near: Path, memory_mib: int = DEFAULT_MEMORY_MIB, threads: int | None = None
) -> DuckDBPyConnection:
    """Return a bounded in-memory database with the macros only; it spills beside `near`."""
    parent = near.resolve().parent
    spill_parent = parent if os.access(parent, os.W_OK) else Path(tempfile.gettempdir())
    scratch = ExitStack()
    spill = scratch.enter_context(scratch_folder(spill_parent / f"{near.name}.duckdb"))
    config: dict[str, Any] = {
        "memory_limit": f"{memory_mib}MiB",
        "threads": threads or _threads(memory_mib),
        "temp_directory": str(spill),
        "preserve_insertion_order": True,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    connection = duckdb.connect(":memory:", config=config)
    weakref.finalize(connection, scratch.close)
    for name in MACROS_SQL:
        connection.execute(read(name).text)
    return connection


def _threads(memory_mib: int) -> int:
    return max(1, min(memory_mib // THREAD_MEMORY_MIB, len(os.sched_getaffinity(0))))


def views(connection: DuckDBPyConnection) -> list[str]:
    """Return the names of the views that a user can read, in the order of the alphabet."""
    found = connection.sql(read("lib/views").text).fetchall()
    return [name for (name,) in found]


class Database:
    """A database of a trace folder that also has the tables that stages add while it is open."""

    def __init__(self, folder: TraceFolder, *, memory_mib: int = DEFAULT_MEMORY_MIB) -> None:
        self._folder = folder
        self._connection = empty(near=folder.path, memory_mib=memory_mib)
        self._root = _plain_path(self._connection, folder.path)
        self._known: dict[str, list[Path]] = {}

    def connection(self) -> DuckDBPyConnection:
        """Return the connection, with a view for each table that the folder holds now."""
        tables = _tables(self._folder, self._root)
        if tables != self._known:
            self._folder.check_tables(MADE_BY)
        for name, files in tables.items():
            if name not in self._known:
                add_view(self._connection, name, *files)
            elif files != self._known[name]:
                _show_files(self._connection, name, files)
        self._known = tables
        return self._connection


def add_view(connection: DuckDBPyConnection, name: str, *files: Path) -> None:
    """Make Parquet files visible as `name`, and the views of `analyzers/lib` that stand on it.

    Those of which each replay or run has its own file have each row's file as `filename`.
    """
    _show_files(connection, name, files)
    if name == "file_runs":
        _execute(connection, "lib/t95", quantiles=_student_quantiles())
    joined = [
        view
        for view, on in JOINED_SQL.items()
        if name in on and all(_has_view(connection, other) for other in on)
    ]
    for view in (*VIEWS_SQL.get(name, ()), *joined):
        try:
            connection.execute(read(view).text)
        except duckdb.BinderException as error:
            maker = MADE_BY.get(name, "replay")
            raise InputError(
                f"{files[0]} was made by another version: {first_line(error)}",
                hint=f"make it anew: the same tracekit {maker} again",
            ) from None


def _has_view(connection: DuckDBPyConnection, name: str) -> bool:
    try:
        connection.view(name)
    except duckdb.CatalogException:
        return False
    return True


def add_table(connection: DuckDBPyConnection, name: str, *, table: Any) -> None:
    """Make an Arrow table visible as `name`, and the views of `analyzers/lib` that stand on it."""
    connection.register(name, table)
    for view in VIEWS_SQL.get(name, ()):
        connection.execute(read(view).text)


def _student_quantiles() -> list[float]:
    """Return the quantiles of 97.5 % of Student's t, by degrees of freedom from 1."""
    from scipy.special import stdtrit

    quantiles: list[float] = stdtrit(range(1, 1001), 0.975).tolist()
    return quantiles


def _show_files(connection: DuckDBPyConnection, name: str, files: Sequence[Path]) -> None:
    paths = [glob.escape(str(file)) for file in files]
    try:
        is_of_many = name.endswith("_files")
        relation = connection.read_parquet(
            paths, filename=is_of_many, union_by_name=name.startswith("set_")
        )
    except duckdb.Error as error:
        hint = f"remove it: rm -r {shell_word(str(files[0]))}"
        raise InputError(f"{files[0]}: {first_line(error)}", hint=hint) from None
    if name in ("requests", "completion_files"):
        _counted.pop(connection, None)
    if name == "requests":
        relation = _with_later_columns(relation)
    relation.create_view(name)


def _with_later_columns(relation: DuckDBPyRelation) -> DuckDBPyRelation:
    """Return requests with the columns that folders of earlier versions lack, which are null."""
    unknown = duckdb.ConstantExpression(None).cast(duckdb.sqltypes.VARCHAR)
    absent = sorted(LATER_COLUMNS - {*relation.columns})
    return relation.select(duckdb.StarExpression(), *(unknown.alias(one) for one in absent))


def run(connection: DuckDBPyConnection, name: str, **parameters: int) -> Any:
    """Run one file of `analyzers/` and return its result as an Arrow table.

    Parameters that are not given take the default of the file's header; UsageError names one that
    the file does not have. InputError says which stage makes a table that is missing.
    """
    with _file_errors(read(name)):
        _count(connection, read(name).counted, read(name).values(parameters))
        return _interruptible(connection, lambda: _executed(connection, name, parameters))


def _executed(connection: DuckDBPyConnection, name: str, parameters: Mapping[str, int]) -> pa.Table:
    """Return the result as a table; a relation would be planned twice."""
    connection.execute(read(name).text, read(name).values(parameters) or None)
    return connection.to_arrow_table()


def computed(connection: DuckDBPyConnection, name: str) -> DuckDBPyRelation:
    """Return the result of one file of `analyzers/`, with its defaults, as a lazy relation."""
    with _file_errors(read(name)):
        _count(connection, read(name).counted, read(name).values({}))
        return _result(connection, name, {})


def _result(
    connection: DuckDBPyConnection, name: str, parameters: Mapping[str, int]
) -> DuckDBPyRelation:
    return connection.sql(read(name).text, params=read(name).values(parameters) or None)


_counted: weakref.WeakKeyDictionary[DuckDBPyConnection, dict[str, int]] = (
    weakref.WeakKeyDictionary()
)
"""Of the tables that passes made for a connection: their buckets an octave, as bits; windows."""


def _count(
    connection: DuckDBPyConnection, tables: Collection[str], values: Mapping[str, int]
) -> None:
    """Make those of `tables` that passes make, for a query with these values and for later ones.

    They are made again when a query wants finer buckets than they have, or other windows.
    """
    for least, count in _PASSES:
        if wanted := {*tables} & {*least}:
            known = _counted.get(connection, {})
            bits = {table: max(known.get(table, 0), least[table]) for table in least}
            finest = values.get("octave_bits", 0)
            bits |= {table: max(bits[table], finest) for table in wanted}
            windows = values.get("window_count", known.get("window_count", WINDOW_COUNT))
            needed = (
                bits if least is request_buckets.LEAST_BITS else bits | {"window_count": windows}
            )
            if known.items() >= needed.items():
                continue
            for table, content in count(connection, bits, windows).items():
                connection.register(table, content)
            _counted[connection] = known | needed


def _count_requests(
    connection: DuckDBPyConnection, octave_bits: Mapping[str, int], _windows: int
) -> dict[str, Any]:
    _execute(connection, "lib/request_words")
    _execute(connection, "lib/kinds_of_requests")
    kinds = connection.table("kinds_of_requests").to_arrow_table()
    batches = _rows(connection, "lib/rows_to_count")
    return request_buckets.count(kinds, batches, octave_bits=octave_bits)


def _count_replays(
    connection: DuckDBPyConnection, octave_bits: Mapping[str, int], windows: int
) -> dict[str, Any]:
    _execute(connection, "lib/request_words")
    _execute(connection, "lib/replay_words")
    (extent,) = connection.sql(read("lib/replays_to_count").text).to_arrow_table().to_pylist()
    counted = replay_buckets.Pass(extent, octave_bits=octave_bits, window_count=windows)
    for first_id, last_id in replay_buckets.parts(extent):
        span = {"first_id": first_id, "last_id": last_id}
        for batch in _rows(connection, "lib/replayed_rows_to_count", **span):
            counted.add(columns_of(batch))
    return counted.tables()


def _rows(connection: DuckDBPyConnection, name: str, **values: int) -> Iterator[Any]:
    """Yield the rows of a file of `lib` as record batches."""
    rows = connection.sql(read(name).text, params=values or None)
    reader = _interruptible(connection, lambda: rows.to_arrow_reader(READER_ROWS))
    yield from _each(connection, reader)


_PASSES: tuple[tuple[Mapping[str, int], Callable[..., dict[str, Any]]], ...] = (
    (request_buckets.LEAST_BITS, _count_requests),
    (replay_buckets.LEAST_BITS, _count_replays),
)
"""Tables that a pass makes, with the buckets that they have at least, and what makes them."""


def select(connection: DuckDBPyConnection, text: str) -> DuckDBPyRelation:
    """Return the result of a user's statement, which must read, as a lazy relation."""
    with _user_errors():
        _must_read(connection, text)
        _count(connection, _WORDS.findall(text), {})
        return connection.sql(text)


def view(connection: DuckDBPyConnection, name: str) -> DuckDBPyRelation:
    """Return a view as a lazy relation; `name` is one of `views`."""
    return connection.view(name)


def rows_of(relation: DuckDBPyRelation, column: str, *, value: str) -> DuckDBPyRelation:
    """Return the rows whose column has the value."""
    return relation.filter(duckdb.ColumnExpression(column) == duckdb.ConstantExpression(value))


def stream(connection: DuckDBPyConnection, name: str, **parameters: int) -> Iterator[Any]:
    """Run one file like `run` and yield its result as record batches, for one of any length."""
    with _file_errors(read(name)):
        reader = _interruptible(
            connection, lambda: _result(connection, name, parameters).to_arrow_reader(READER_ROWS)
        )
        yield from _each(connection, reader)


@contextmanager
def _file_errors(query: Query) -> Iterator[None]:
    """Turn what a file of ours fails with on this trace into our errors."""
    try:
        yield
    except (duckdb.Error, OSError) as error:
        _check_memory(query.name, error)
        if not isinstance(error, duckdb.CatalogException):
            raise impossible_values(query.name, error) from None
        missing = [table for table in query.reads if f"name {table} does not exist" in str(error)]
        if not missing:
            raise
        raise InputError(
            f"{query.name} needs the table '{missing[0]}', which this trace does not have yet",
            hint=f"run: tracekit {MADE_BY.get(missing[0], 'analyze')} TRACE",
        ) from None


@dataclass(frozen=True)
class Rows:
    """A result that is fetched batch by batch: its Arrow schema and its record batches."""

    schema: Any
    batches: Iterator[Any]


def ask(connection: DuckDBPyConnection, text: str) -> Rows:
    """Run one statement of a user and return its rows as they come.

    Only statements that read are run: select, from, with, values, describe, show, summarize, pivot
    with a list of values, and explain of these. UsageError says what is wrong with any other.
    """
    with _user_errors():
        _must_read(connection, text)
        _count(connection, _WORDS.findall(text), {})
        reader = _interruptible(
            connection, lambda: connection.sql(text).to_arrow_reader(READER_ROWS)
        )
    return Rows(reader.schema, _batches(connection, reader))


def _interruptible(connection: DuckDBPyConnection, work: Callable[[], Any]) -> Any:
    """Return what a call of the database returns; it runs on a thread, for signals to be noticed.

    Between two calls the database is idle, so that it can be closed.
    """
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        try:
            while not wait([running], STOP_SECONDS).done:
                pass
        except BaseException:
            _interrupt(connection)
            raise
        return running.result()


def _interrupt(connection: DuckDBPyConnection) -> None:
    """End the statement that runs, if one does; a closed connection has none."""
    with suppress(duckdb.Error):
        connection.interrupt()


def _batches(connection: DuckDBPyConnection, reader: Any) -> Iterator[Any]:
    with _user_errors():
        yield from _each(connection, reader)


def _each(connection: DuckDBPyConnection, reader: Any) -> Iterator[Any]:
    following = partial(next, reader, None)
    while (batch := _interruptible(connection, following)) is not None:
        yield batch


@contextmanager
def _user_errors() -> Iterator[None]:
    """Turn what a user's statement fails with, at its start or while it runs, into our errors."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        _check_memory("the statement", error)
        raise UsageError(*str(error).split("\n")) from None


def _must_read(connection: DuckDBPyConnection, text: str) -> None:
    """Raise UsageError unless the text is one statement that reads."""
    statements = connection.extract_statements(text)
    if len(statements) != 1:
        raise UsageError(f"expected one SQL statement, got {len(statements)}")
    kind = statements[0].type.name
    if kind == "EXPLAIN":
        # `explain analyze` runs what follows it, so that must be a statement that reads, too.
        inner = _EXPLAIN.fullmatch(statements[0].query)
        if inner is None:
            raise UsageError("no comment may stand between 'explain' and its statement")
        _must_read(connection, inner["statement"])
    elif kind != "SELECT":
        raise UsageError(
            f"{kind.lower()} statements are not run: this only reads the trace's tables",
            hint="write a result to a file with --output",
        )


def _check_memory(what: str, error: Exception) -> None:
    """Raise TracekitError for what did not fit; a stream gives that of later batches as OSError."""
    if isinstance(error, duckdb.OutOfMemoryException) or "Out of Memory" in str(error):
        raise TracekitError(
            f"{what} does not fit into the database's memory: {first_line(error)}",
            hint="give it more with --memory",
        ) from None
