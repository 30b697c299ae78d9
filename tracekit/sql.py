"""A user's own SQL: the tables described, results in the format wanted, an interactive session."""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from tracekit import query
from tracekit.analyze import ANALYSES, CHECKS_TABLE
from tracekit.errors import TracekitError, UsageError
from tracekit.escapes import FORMULA, bare, cell, escape, joined
from tracekit.locks import folder_lock
from tracekit.store import TraceFolder, beside, refuse_taken, write_batches
from tracekit.tables import (
    FILES_REPLAYED,
    OPERATIONS_SWEPT,
    REPLAY_OBSERVED,
    REPLAYED,
    TABLES,
    Table,
)

TABLE_ROWS = 1000


@dataclass(frozen=True)
class TableNote:
    """What is said of a table: who makes it, what a row is and what its columns mean."""

    name: str
    made_by: str
    grain: str
    question: str
    columns: Mapping[str, str]


def _stored(table: Table, **key: str) -> TableNote:
    """Return the note of a table; `key` is the column that tells whose file a row is from."""
    columns = {
        field.name: field.metadata[b"meaning"].decode()
        + (" (can be null)" if field.nullable else "")
        for field in table.columns
    }
    return TableNote(table.name, table.made_by, table.grain, "", {**key, **columns})


def _described(name: str, made_by: str) -> TableNote:
    file = query.read(name)
    return TableNote(file.table, made_by, file.grain, file.question, file.columns)


def notes() -> list[TableNote]:
    """Return the notes of all tables and views that a trace folder can have."""
    requests, *stored = (_stored(table) for table in TABLES)
    return [
        requests,
        _described("lib/steps", "parse"),
        _described("lib/gaps", "parse"),
        *stored,
        _described("lib/files_of_blocks", "classify"),
        _described("lib/files_of_requests", "parse"),
        _stored(OPERATIONS_SWEPT, run_id="of file_runs"),
        _described("lib/dax_ratios", "sweep"),
        _described("lib/dax_steps", "sweep"),
        _stored(REPLAYED, replay="name of the run"),
        _described("lib/replay_times", "replay"),
        _stored(REPLAY_OBSERVED, replay="name of the run"),
        _stored(FILES_REPLAYED, replay="name of the run"),
        *(_described(name, "analyze") for name in ANALYSES),
        TableNote("checks", "analyze", "one row per check that failed", "", CHECKS_TABLE),
    ]


def describe(folder: TraceFolder | None) -> str:
    """Return the notes of the tables of `folder`, or of all that there can be, as Markdown."""
    chosen = notes()
    if folder is not None:
        with query.connect(folder) as connection:
            present = set(query.views(connection))
        chosen = [note for note in chosen if note.name in present]
    lines = [
        "# Tables for SQL",
        "",
        '`tracekit sql TRACE "select ..."` reads these. Columns carry their units: `_ns` is'
        " nanoseconds since the trace",
        "start (of a time) or long (of a duration), `_bytes` bytes, `_sectors` 512-byte sectors,"
        " `_ratio` 0 to 1.",
        "`log_bucket(value, bits)` and `log_bucket_low(bucket, bits)` make log-linear histograms.",
        "Queries that the report shows name tables of buckets, too (`request_times`,"
        " `replay_windows` ...): they are made",
        "by one pass over the requests or completions when a statement names them.",
        "This text is printed by `tracekit sql --describe`.",
    ]
    for note in chosen:
        lines += ["", f"## {note.name}", ""]
        lines += [note.question, ""] if note.question else []
        lines += [f"Made by `tracekit {note.made_by}`; {note.grain}.", ""]
        lines += ["| column | meaning |", "|---|---|"]
        lines += [f"| `{name}` | {meaning} |" for name, meaning in note.columns.items()]
    return "\n".join(lines) + "\n"


def answer(
    folder: TraceFolder,
    statement: str | None,
    *,
    format_name: str,
    output: Path | None,
    memory_mib: int,
    raw: bool = False,
) -> None:
    """Print the rows of a statement, or write them to a new file; without one, begin a dialogue.

    It is locked: nothing but the trace's tables can be read, and nothing written. With `raw` texts
    stand in CSV as they are.
    """
    if raw and (format_name != "csv" or statement is None):
        raise UsageError("--raw is of CSV", hint="give a statement and --format csv")
    if output is not None:
        refuse_taken(output, overwrite=False, can_force=False)
    # A dialogue may stay open for days: it would keep all that write waiting.
    lock = nullcontext() if statement is None else folder_lock(folder.path, shared=True)
    with lock, query.connect_locked(folder, memory_mib=memory_mib) as connection:
        if statement is None:
            Dialogue(connection, folder, sys.stdout).run()
        else:
            rows = query.ask(connection, statement)
            write(rows, sys.stdout, format_name=format_name, output=output, raw=raw)


def write(
    rows: query.Rows,
    stream: IO[str],
    *,
    format_name: str,
    output: Path | None = None,
    raw: bool = False,
) -> None:
    """Write rows as table, csv, json or parquet to `output`, or to `stream` if that is None.

    A file appears only when it is whole. Parquet needs a file.
    """
    formats = {**FORMATS, "csv": _write_raw_csv} if raw else FORMATS
    if format_name == "parquet":
        if output is None:
            raise UsageError("a Parquet result needs a file", hint="name it with --output")
        write_batches(output, rows.batches, schema=rows.schema, overwrite=False)
    elif output is None:
        formats[format_name](rows, stream)
    else:
        with beside(output, overwrite=False) as part, part.open("w", newline="") as file:
            formats[format_name](rows, file)


SAMPLE_ROWS = 1000
IS_FORMULA = np.isin(np.arange(256), [ord(mark) for mark in FORMULA])


def _records(rows: query.Rows) -> Iterator[dict[str, Any]]:
    for batch in rows.batches:
        yield from batch.to_pylist()


def _write_csv(rows: query.Rows, stream: IO[str]) -> None:
    """Write texts that neither act on a terminal nor are formulas; numbers are as they are."""
    writer = csv.writer(bare(stream), lineterminator="\n")
    writer.writerow(map(cell, rows.schema.names))
    for batch in rows.batches:
        writer.writerows(zip(*map(_cells, batch.columns), strict=True))


def _cells(column: Any) -> list[Any]:
    """Return the values of a column for CSV; where texts may act, each different one is escaped."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    is_as_it_is = pa.types.is_primitive(kind) or (
        pa.types.is_nested(kind) and not pa.types.is_union(kind)
    )
    if is_as_it_is or (pa.types.is_string(kind) and not _repeats(column) and _is_plain(column)):
        found: list[Any] = column.to_pylist()
        return found
    if pa.types.is_string(kind) or pa.types.is_dictionary(kind):
        encoded = column.dictionary_encode()
        values = [_cell_of(value) for value in encoded.dictionary.to_pylist()]
        return [None if place is None else values[place] for place in encoded.indices.to_pylist()]
    return list(map(_cell_of, column.to_pylist()))


def _cell_of(value: Any) -> Any:
    return cell(value) if isinstance(value, str) else value


def _repeats(texts: Any) -> bool:
    """Guess whether a column has few different texts; then it is faster to take each once."""
    sample = texts[:SAMPLE_ROWS]
    return len(sample.unique()) * 4 < len(sample)


def _is_plain(texts: Any) -> bool:
    """Say whether texts are printable ASCII and begin no formula, from their bytes all at once."""
    if not len(texts):
        return True
    _, offsets, data = texts.buffers()
    places = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(data or b"", np.uint8)[: places[-1]]
    if not len(content):
        return True
    # An empty text at the end has no byte of its own; that of another does no harm.
    first = content[np.minimum(places[:-1], len(content) - 1)]
    is_printed = content[places[0] :] - np.uint8(ord(" ")) < ord("\x7f") - ord(" ")
    return bool(is_printed.all()) and not IS_FORMULA[first].any()


def _write_raw_csv(rows: query.Rows, stream: IO[str]) -> None:
    writer = csv.writer(bare(stream), lineterminator="\n")
    writer.writerow(rows.schema.names)
    for batch in rows.batches:
        writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _write_json(rows: query.Rows, stream: IO[str]) -> None:
    between = "[\n"
    for record in _records(rows):
        text = json.dumps(_plain(record), ensure_ascii=False, default=str)
        if escape(text) != text:
            text = json.dumps(_plain(record), default=str)
        stream.write(between + text)
        between = ",\n"
    stream.write("\n]\n" if between == ",\n" else "[]\n")


def _plain(value: Any) -> Any:
    """Return the value as JSON has it: no decimals, and null for what is no number."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _write_table(rows: query.Rows, stream: IO[str]) -> None:
    if rows.schema.names == ["explain_key", "explain_value"]:
        lines = [line for row in _records(rows) for line in row["explain_value"].split("\n")]
        stream.writelines(f"{_cell(line)}\n" for line in lines)
        return
    first = itertools.islice(_records(rows), TABLE_ROWS + 1)
    cells = [[_cell(value) for value in record.values()] for record in first]
    is_cut = len(cells) > TABLE_ROWS
    cells = cells[:TABLE_ROWS]
    names = [escape(name) for name in rows.schema.names]
    widths = [max(len(row[i]) for row in [names, *cells]) for i in range(len(names))]
    kinds = [field.type for field in rows.schema]
    for row in [names, ["-" * width for width in widths], *cells]:
        padded = [
            cell.rjust(width) if _is_number(kind) else cell.ljust(width)
            for cell, width, kind in zip(row, widths, kinds, strict=True)
        ]
        stream.write("  ".join(padded).rstrip() + "\n")
    if is_cut:
        stream.write(f"... more than {TABLE_ROWS} rows; --format csv gives all of them\n")


def _cell(value: Any) -> str:
    """Return a value on one line; control characters of a trace must not reach the terminal."""
    if value is None:
        return "null"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return escape(text)


def _is_number(kind: Any) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


FORMATS: dict[str, Callable[[query.Rows, IO[str]], None]] = {
    "table": _write_table,
    "csv": _write_csv,
    "json": _write_json,
}


HELP = """\
Statements end with ';' and can go over several lines. Only statements that read are run.
  .tables          the tables of this trace
  .schema [TABLE]  the columns of a table, or of all tables, with their units
  .mode FORMAT     show results as table, csv or json
  .help            this text
  .quit            leave, as does Ctrl-D; Ctrl-C drops what was typed
"""
HISTORY_LINES = 1000


class Dialogue:
    """Reads statements from stdin and writes their results to a stream until the input ends."""

    def __init__(self, connection: Any, folder: TraceFolder, stream: IO[str]) -> None:
        self.connection = connection
        self.folder = folder
        self.stream = stream
        self.format_name = "table"
        self.is_terminal = sys.stdin.isatty()

    def run(self) -> None:
        """Answer until `.quit` or the end of the input; an error ends only its statement."""
        history = self._begin() if self.is_terminal else None
        pending = ""
        try:
            while True:
                try:
                    line = self._line(pending)
                except KeyboardInterrupt:
                    self.stream.write("\n")
                    pending = ""
                    continue
                if line is None or (not pending and line.strip() in (".quit", ".exit")):
                    break
                pending = self._take(pending, line)
            if pending.strip():
                self._answer(pending)
        finally:
            if history is not None:
                _save_history(history)

    def _line(self, pending: str) -> str | None:
        """Return the next line of input, None at its end."""
        prompt = ("    ...> " if pending else "tracekit> ") if self.is_terminal else ""
        try:
            return input(prompt)
        except EOFError:
            if self.is_terminal:
                self.stream.write("\n")
            return None

    def _take(self, pending: str, line: str) -> str:
        """Run what is complete with this line and return what is not."""
        if not pending and line.startswith("."):
            self._command(line.split())
            return ""
        pending = f"{pending}{line}\n" if pending or line.strip() else ""
        if not pending.rstrip().endswith(";"):
            return pending
        self._answer(pending)
        return ""

    def _command(self, words: list[str]) -> None:
        name, arguments = words[0], words[1:]
        if name == ".tables":
            self.stream.write(joined(query.views(self.connection)) + "\n")
        elif name == ".schema":
            self._schema(arguments)
        elif name == ".mode" and arguments and arguments[0] in ("table", "csv", "json"):
            self.format_name = arguments[0]
        elif name == ".help":
            self.stream.write(HELP)
        else:
            self._complain(f"{' '.join(words)} is unknown; .help lists what there is")

    def _schema(self, names: list[str]) -> None:
        if not names:
            self.stream.write(describe(self.folder))
        for name in names:
            found = [note for note in notes() if note.name == name]
            if not found:
                self._complain(f"there is no table {name}; .tables lists them")
            for note in found:
                self.stream.write(f"{note.name}: {note.grain}\n")
                for column, meaning in note.columns.items():
                    self.stream.write(f"  {column}: {meaning}\n")

    def _answer(self, text: str) -> None:
        try:
            write(query.ask(self.connection, text), self.stream, format_name=self.format_name)
        except TracekitError as error:
            self._complain(str(error))
            if error.hint:
                self._complain(f"  {error.hint}")
        except KeyboardInterrupt:
            self._complain("interrupted")

    def _complain(self, message: str) -> None:
        self.stream.flush()
        sys.stderr.write(message + "\n")

    def _begin(self) -> Path:
        """Greet, and load the history and the names that Tab completes; return the history file."""
        import readline

        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        history = state / "tracekit" / "sql_history"
        if history.is_file():
            readline.read_history_file(history)
        words = [name for name in query.views(self.connection) if name.isprintable()]
        words += sorted({column for note in notes() for column in note.columns})
        readline.set_completer(lambda start, number: _completion(words, start, number))
        readline.parse_and_bind("tab: complete")
        self.stream.write(f"{escape(str(self.folder.path))}: .help for help, Ctrl-D to leave\n")
        return history


def _completion(words: list[str], start: str, number: int) -> str | None:
    """Return the match of this number of the word that was begun, None after the last."""
    matches = [word for word in words if word.startswith(start)]
    return matches[number] if number < len(matches) else None


def _save_history(history: Path) -> None:
    """Keep the last lines for the next time; a home that cannot be written is no failure."""
    import readline

    readline.set_history_length(HISTORY_LINES)
    try:
        history.parent.mkdir(parents=True, exist_ok=True)
        readline.write_history_file(history)
    except OSError:
        return
