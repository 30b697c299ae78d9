"""`tracekit report`: one HTML file with the answer and its evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tracekit as tk
from tracekit.commands import options


def report(
    trace: Annotated[
        list[Path],
        options.trace_folder(
            "Trace folder; stages that have not run are named. Several are put side by side,"
            " the others against the first, each also a name whose repeats are FOLDER.1,"
            " FOLDER.2, ...; or two or more replays of one trace. Or a trace set.",
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="HTML file to write. [default: TRACE/report.html, or in the set; of several"
            " side-by-side.html]",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write one self-contained HTML file: the answer, or what differs, then the evidence."""
    if len(trace) == 1:
        options.show(options.opened(trace[0], {}).report(output), as_json=as_json)
    else:
        options.show(tk.report(*trace, output=output), as_json=as_json)
