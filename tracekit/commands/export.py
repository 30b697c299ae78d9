"""`tracekit export`: a trace for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tracekit as tk
from tracekit.choices import (
    ExportFormat,
)
from tracekit.commands import options


def export(
    context: typer.Context,
    trace: options.Trace,
    *,
    format: Annotated[  # noqa: A002 - the word of the option
        ExportFormat,
        typer.Option(
            help="blkparse: the events of each request as text, which import reads back. fio: an"
            " I/O log of version 3, and beside it FILE.fio, a job that replays it. msr:"
            " CSV as that of MSR Cambridge, with response times. oracleGeneral: records for cache"
            " simulators, of which an object is the sector where a request begins.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="New file.")],
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    as_json: options.Json = False,
) -> None:
    """Write the requests of a trace, as queued, for other tools; say what the format lacks."""
    options.show(tk.open(trace).export(**options.given(context)), as_json=as_json)
