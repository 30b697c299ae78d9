"""`tracekit export`: a trace for other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer


def export(
    trace: Annotated[Path, typer.Argument(help="Trace folder.")],
    *,
    form: Annotated[
        Literal["blkparse", "fio", "msr", "oracleGeneral"],
        typer.Option(
            "--format",
            help="blkparse: the events of each request as text, which import reads back. fio: an"
            " I/O log of version 3, and beside it FILE.fio, a job that replays it. msr:"
            " CSV as that of MSR Cambridge, with response times. oracleGeneral: records for cache"
            " simulators, of which an object is the sector where a request begins.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="New file.")],
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write the requests of a trace, as queued, for other tools; say what the format lacks."""
    from tracekit.progress import row_progress
    from tracekit.store import TraceFolder
    from tracekit.writers.export import export as run_export
    from tracekit.writers.export import lines

    with row_progress("export") as on_rows:
        result = run_export(
            TraceFolder(trace), form, output=output, overwrite=force, on_rows=on_rows
        )
    typer.echo(json.dumps(result, indent=2) if as_json else "\n".join(lines(result)))
