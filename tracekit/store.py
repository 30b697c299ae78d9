"""The trace folder: Parquet tables beside a `trace.json`, written beside and then renamed."""

from __future__ import annotations

import fcntl
import glob
import json
import os
import secrets
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import to_builtins
from msgspec.structs import replace

from tracekit.errors import InputError, UsageError, named_for
from tracekit.metadata import TABLES, Source, TraceInfo, check_table, read_object, validate
from tracekit.tables import COMPLETIONS, ROW_GROUP_ROWS, SCHEMA_VERSION
from tracekit.version import __version__


def encodings(schema: Any) -> dict[str, Any]:
    """Return how to store the columns: times and places as differences, texts by dictionary.

    Measured on a million requests of a capture: a fifth less time and space than dictionaries for
    all columns, and a fifth less time without the extremes of words and flags, which are of no use
    for a group. Pages of a MiB in place of 20,000 rows, and small numbers as they are, take another
    fifth of the time and a sixth of the space. Splitting places into bytes would take a tenth
    less again, but of the encodings it alone is too new for readers such as Spark's.
    """
    wide = [field.name for field in schema if field.type == pa.int64()]
    small = [field.name for field in schema if field.type == pa.int32()]
    telling = (pa.int64(), pa.int32(), pa.float64())
    plain = dict.fromkeys(small, "PLAIN")
    return {
        "compression": "zstd",
        "compression_level": 1,
        "max_rows_per_page": ROW_GROUP_ROWS,
        "write_statistics": [field.name for field in schema if field.type in telling],
        "use_dictionary": [name for name in schema.names if name not in (*wide, *small)],
        "column_encoding": dict.fromkeys(wide, "DELTA_BINARY_PACKED") | plain,
    }


INFO_NAME = "trace.json"
WRITE_BATCH_ROWS = 1 << 16


class TraceFolder:
    """A trace on disk: `trace.json`, `requests.parquet`, and the tables that stages added."""

    def __init__(self, path: Path) -> None:
        """Open an existing folder; raise InputError if it is not a trace folder of this schema."""
        self.path = path
        self.content, self.info = _read_info(path)

    def table(self, name: str) -> Path:
        """Return the path of a table such as `requests` or `findings/totals`."""
        return self.path / f"{name}.parquet"

    def has(self, name: str) -> bool:
        """Say whether a stage has written the table."""
        return self.table(name).exists()

    def require(self, name: str, *, made_by: str) -> Path:
        """Return the table's path, or raise InputError that names the command which makes it.

        A table with a schema must have the schema's columns.
        """
        hint = f"run: {command_line(made_by, self.path)}"
        if not self.has(name):
            raise InputError(f"{self.path}: there is no table '{name}'", hint=hint)
        if name in TABLES:
            hint = "parse the capture again" if made_by == "parse" else hint
            check_table(self.table(name), TABLES[name], hint=hint)
        return self.table(name)

    def check_tables(self, made_by: Mapping[str, str]) -> None:
        """Raise InputError for a table that is there and does not have the columns of its schema.

        `made_by` names the command of each table; completions need the requests that they name.
        """
        for place in TABLES:
            if self.has(place):
                self.require(place, made_by=made_by[place.rpartition("/")[2]])
        for file in self.path.glob("replays/*/completions.parquet"):
            self.require("requests", made_by="parse")
            hint = f"replay again, or remove {file.parent}"
            check_table(file, COMPLETIONS, hint=hint, may_have_nulls=True)

    def save_info(self, **changes: Any) -> None:
        """Set fields of trace.json; the file is replaced in one step, other keys stay."""
        self.info = replace(self.info, **changes)
        self.content = {**self.content, **to_builtins(changes)}
        write_json(self.path / INFO_NAME, self.content)


def measurement_folder(path: Path) -> TraceFolder:
    """Open a trace folder, or make one that has no trace, for what is measured without one.

    Raises UsageError for a path that is there and is something else.
    """
    if (path / INFO_NAME).is_file():
        return TraceFolder(path)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(
            f"{path} exists already and is no trace folder", hint="choose another --output"
        )
    path.mkdir(parents=True, exist_ok=True)
    source = Source(format="measurements", kernel=os.uname().release)
    write_info(path, TraceInfo(source=source))
    return TraceFolder(path)


def _read_info(path: Path) -> tuple[dict[str, Any], TraceInfo]:
    file = path / INFO_NAME
    if not file.is_file():
        raise InputError(
            f"{path} is not a trace folder: it has no {INFO_NAME}",
            hint="make one with: tracekit parse CAPTURE -o FOLDER",
        )
    info = read_object(file, hint="parse the capture again")
    version = info.get("schema")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{file} has schema {version!r}, this tracekit {__version__} reads {SCHEMA_VERSION}",
            hint="parse the capture again with this version",
        )
    return info, validate(info, TraceInfo, file=file, hint="parse the capture again")


def write_info(folder: Path, info: TraceInfo) -> None:
    """Write a folder's trace.json, replacing the file in one step."""
    write_json(folder / INFO_NAME, to_builtins(info))


def command_line(command: str, folder: Path) -> str:
    """Return a command for a trace folder as it can be typed in a shell."""
    return f"tracekit {command} {shlex.quote(str(folder))}"


@contextmanager
def new_folder(path: Path, *, overwrite: bool = False, marker: str = INFO_NAME) -> Iterator[Path]:
    """Yield an empty folder beside `path` and rename it to `path` when the block succeeds.

    On any failure, Ctrl-C included, nothing is left. Only a folder of ours is ever replaced: one
    that holds the file `marker`.
    """
    if path.exists() and not (overwrite and (path / marker).is_file()):
        hint = "choose another --output" if overwrite else "choose another --output or pass --force"
        raise UsageError(f"{path} exists already", hint=hint)
    path.parent.mkdir(parents=True, exist_ok=True)
    with named_for(path), scratch_folder(path) as beside:
        yield beside
        if path.exists():
            shutil.rmtree(path)
        beside.rename(path)


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Yield a temporary file name beside `path`, renamed to `path` when the block succeeds.

    What is no file, such as /dev/null or a pipe, is written to at the end and stays what it is.
    Raises UsageError for a disk.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_block_device():
        raise UsageError(f"{path} is a disk, not a file", hint="write to a file")
    if path.is_char_device() or path.is_fifo():
        with tempfile.TemporaryDirectory(prefix="tracekit-") as place:
            yield Path(place) / path.name
            with (Path(place) / path.name).open("rb") as whole, path.open("wb") as out:
                shutil.copyfileobj(whole, out)
        return
    with named_for(path), _claimed(path, Path.touch) as part:
        yield part
        part.replace(path)


def refuse_folder(path: Path, name: str) -> None:
    """Raise UsageError where a file is to be and a folder is; `name` suggests a file in it."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder, not a file", hint=f"write to {path / name}")


def scratch_folder(path: Path) -> AbstractContextManager[Path]:
    """Yield an empty folder beside `path` that is gone when the block ends."""
    return _claimed(path, Path.mkdir)


def left_behind(path: Path) -> Iterator[Path]:
    """Yield what killed processes left beside `path`, each while nobody else may take it."""
    for stale in sorted(path.parent.glob(f".{glob.escape(path.name)}.tracekit-*")):
        with suppress(OSError), _locked(stale):
            yield stale


@contextmanager
def _claimed(path: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """Yield a new temporary name beside `path`, which is gone when the block ends.

    A lock on what it names shows that its process lives; what a killed one left beside the same
    path is removed first.
    """
    for stale in left_behind(path):
        with suppress(OSError):
            _remove(stale)
    part, lock = _claim(path, make)
    try:
        yield part
    finally:
        os.close(lock)
        _remove(part)


def _claim(path: Path, make: Callable[[Path], None]) -> tuple[Path, int]:
    """Make a temporary name beside `path`; return it and the descriptor that holds its lock."""
    while True:
        part = path.with_name(f".{path.name}.tracekit-{os.getpid()}-{secrets.token_hex(4)}")
        make(part)
        try:
            lock = os.open(part, os.O_RDONLY | os.O_NOFOLLOW)
            # Without locks, as on some network file systems, nothing is taken for left behind.
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_SH)
            if part.exists():
                return part, lock
            os.close(lock)
        except FileNotFoundError:
            pass
        except KeyboardInterrupt:
            _remove(part)
            raise
        # Somebody who was cleaning up took it for left behind before it was locked.


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock on a file or folder; raise BlockingIOError when another process has it."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write JSON, indented and in the given key order, replacing the file in one step."""
    with beside(path) as part:
        part.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_results(
    folder: TraceFolder, place: str, *, result: Any, tables: Mapping[str, Any]
) -> None:
    """Write the tables of a stage by name, and its result, a Record, as JSON at `place`."""
    for name, table in tables.items():
        write_table(folder.table(name), table)
    write_json(folder.path / place, to_builtins(result))


def write_table(path: Path, table: Any) -> None:
    """Write one Arrow table as Parquet, replacing the file in one step."""
    write_batches(path, table.to_batches(), schema=table.schema)


def write_batches(
    path: Path,
    batches: Iterable[Any],
    *,
    schema: Any,
    on_rows: Callable[[int], None] | None = None,
) -> int:
    """Stream record batches into one zstd Parquet file and return the number of rows.

    Rows are gathered into row groups of about a million; `on_rows` gets each batch's rows.
    The dictionaries of text columns may differ from batch to batch.
    """

    def flush() -> None:
        table = pa.Table.from_batches(pending, schema).unify_dictionaries()
        writer.write_table(table, ROW_GROUP_ROWS)

    total = 0
    pending: list[Any] = []
    pending_rows = 0
    with (
        beside(path) as part,
        pq.ParquetWriter(
            part, schema, write_batch_size=WRITE_BATCH_ROWS, **encodings(schema)
        ) as writer,
    ):
        for batch in batches:
            total += batch.num_rows
            pending_rows += batch.num_rows
            pending.append(batch)
            if on_rows is not None:
                on_rows(batch.num_rows)
            if pending_rows >= ROW_GROUP_ROWS:
                flush()
                pending, pending_rows = [], 0
        if pending or total == 0:
            flush()
    return total
