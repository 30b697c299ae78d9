"""`tracekit report`: one HTML file with the answer and its evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tracekit as tk
from tracekit.commands import options


def report(
    trace: Annotated[
        Path, typer.Argument(help="Trace folder; stages that have not run are named.")
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="HTML file to write. [default: TRACE/report.html]"),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write one self-contained HTML file: the answer first, then the evidence behind it."""
    options.show(tk.open(trace).report(output), as_json=as_json)
