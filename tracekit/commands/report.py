"""`tracekit report`: one HTML file with the answer and its evidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def report(
    trace: Annotated[
        Path, typer.Argument(help="Trace folder; stages that have not run are named.")
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="HTML file to write. [default: TRACE/report.html]"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write one self-contained HTML file: the answer first, then the evidence behind it."""
    from tracekit.report.page import report as write_report
    from tracekit.store import TraceFolder

    result = write_report(TraceFolder(trace), output or trace / "report.html")
    if as_json:
        typer.echo(json.dumps(result.as_dict(), indent=2))
        return
    typer.echo(str(result.path))
    for command, titles in result.missing.items():
        typer.echo(f"not in it yet: {', '.join(titles)}; run: {command}", err=True)
