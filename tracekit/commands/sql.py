"""`tracekit sql`: a user's own SQL over a trace folder, once or in a dialogue."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from tracekit.errors import UsageError


def sql(
    trace: Annotated[Path | None, typer.Argument(help="Trace folder.")] = None,
    statement: Annotated[
        str | None, typer.Argument(help="One statement; without it, a dialogue begins.")
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read the statement from this file.")
    ] = None,
    format_name: Annotated[
        Literal["table", "csv", "json", "parquet"],
        typer.Option("--format", help="Form of the result; a table shows at most 1000 rows."),
    ] = "table",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="New file for the result.")
    ] = None,
    describe: Annotated[
        bool, typer.Option("--describe", help="Say which tables and columns there are and stop.")
    ] = False,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Begin a dialogue.")
    ] = False,
    memory: Annotated[
        int, typer.Option(help="Memory for the database, in MiB.", min=64, max=1 << 24)
    ] = 512,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Run SQL over a trace's tables; nothing but these tables can be read, and nothing written."""
    from tracekit import query
    from tracekit.sql import describe as describe_tables
    from tracekit.sql import write
    from tracekit.store import TraceFolder

    folder = None if trace is None else TraceFolder(trace)
    if describe:
        typer.echo(describe_tables(folder), nl=False)
        return
    if folder is None:
        raise UsageError("no trace folder was given", hint='tracekit sql TRACE "select ..."')
    text = _statement(statement, file, interactive=interactive)
    if output is not None and output.exists():
        raise UsageError(f"{output} exists already", hint="choose another --output")
    with query.connect_locked(folder, memory_mib=memory) as connection:
        if text is None:
            from tracekit.sql import Dialogue

            Dialogue(connection, folder, sys.stdout).run()
            return
        rows = query.ask(connection, text)
        write(rows, sys.stdout, format_name="json" if as_json else format_name, output=output)


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
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read as text: {error}") from None
