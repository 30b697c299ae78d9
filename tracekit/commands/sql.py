"""`tracekit sql`: a user's own SQL over a trace folder, once or in a dialogue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tracekit as tk
from tracekit.choices import ResultFormat
from tracekit.commands import options
from tracekit.errors import UsageError
from tracekit.safe_open import read_given
from tracekit.units import memory_mib


def sql(
    trace: Annotated[Path | None, options.trace_folder("Trace folder.")] = None,
    statement: Annotated[
        str | None, typer.Argument(help="One statement; without it, a dialogue begins.")
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read the statement from this file.")
    ] = None,
    format: Annotated[  # noqa: A002 - the word of the option
        ResultFormat,
        typer.Option(help="Form of the result; a table shows at most 1000 rows."),
    ] = "table",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="New file for the result.")
    ] = None,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw",
            help="Leave texts of CSV as they are: control characters, and what a spreadsheet takes"
            " for a formula, which otherwise gets an apostrophe.",
        ),
    ] = False,
    describe: Annotated[
        bool, typer.Option("--describe", help="Say which tables and columns there are and stop.")
    ] = False,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Begin a dialogue.")
    ] = False,
    memory: Annotated[
        str, typer.Option(help="Memory for the database, at least 64MiB.")
    ] = "512MiB",
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Run SQL over a trace's tables; nothing but these tables can be read, and nothing written."""
    from tracekit.sql import answer
    from tracekit.sql import describe as describe_tables

    opened = None if trace is None else tk.open(trace)
    if describe:
        typer.echo(describe_tables(opened.folder if opened else None), nl=False)
        return
    if opened is None:
        raise UsageError("no trace folder was given", hint='tracekit sql TRACE "select ..."')
    answer(
        opened.folder,
        _statement(statement, file, interactive=interactive),
        format_name="json" if as_json else format,
        output=output,
        memory_mib=memory_mib(memory, least=64),
        raw=raw,
    )


def _statement(statement: str | None, file: Path | None, *, interactive: bool) -> str | None:
    """Return the one statement that was given, None for a dialogue."""
    given = [statement is not None, file is not None, interactive]
    if sum(given) > 1:
        raise UsageError(
            "a statement, --file and --interactive exclude each other", hint="choose one of them"
        )
    if file is None:
        return statement
    try:
        return read_given(file).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read as text: {error}") from None
