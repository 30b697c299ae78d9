"""`tracekit compare`: replays of a trace side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tracekit as tk
from tracekit.commands import options


def compare(
    trace: Annotated[Path, typer.Argument(help="Trace folder, with replays.")],
    names: Annotated[
        list[str],
        typer.Argument(
            help="Replays; a name whose repeats are NAME.1, NAME.2, ...; or `trace` for what was"
            " traced. The others are compared with the first.",
            metavar="NAME NAME...",
        ),
    ],
    *,
    as_json: options.Json = False,
) -> None:
    """Compare latency by role and operation and elapsed time of replays, with their confidence."""
    options.show(tk.open(trace).compare(*names), as_json=as_json)
