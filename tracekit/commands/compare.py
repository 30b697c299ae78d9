"""`tracekit compare`: replays of a trace side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tracekit as tk
from tracekit.commands import options
from tracekit.commands.replay import runs_of


def compare(
    trace: Annotated[Path, typer.Argument(help="Trace folder, with replays.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Replays; a name whose repeats are NAME.1, NAME.2, ...; or `trace` for what was"
            " traced. The others are compared with the first.",
            metavar="NAME NAME...",
        ),
    ] = None,
    *,
    run: Annotated[list[str] | None, options.RUNS] = None,
    repeat: Annotated[int, typer.Option(help="With --run: how often each runs.", min=1)] = 6,
    as_json: options.Json = False,
) -> None:
    """Compare latency by role and operation and elapsed time of replays, with their confidence."""
    opened, runs = tk.open(trace), runs_of(run or ())
    for made in opened.replays(repeat=repeat, run=runs) if runs else ():
        made.check()
    options.show(opened.compare(*(names or ()), *runs), as_json=as_json)
