"""`tracekit fit`: a trace becomes a work profile that can be shared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tracekit as tk
from tracekit.commands import options


def fit(
    context: typer.Context,
    trace: options.Trace,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="New profile, a TOML file.")
    ],
    processes: Annotated[
        int,
        typer.Option(help="Most processes, by role and device, with a stream of their own.", min=1),
    ] = 8,
    names: Annotated[
        bool, typer.Option("--names", help="Keep the names of processes; else they are numbered.")
    ] = False,
    measured: Annotated[
        bool,
        typer.Option(
            "--measured", help="Keep quantiles of the gaps even where a distribution comes close."
        ),
    ] = False,
    compare: Annotated[
        bool,
        typer.Option(help="Make as many requests of the profile, and tell how they differ."),
    ] = True,
    seed: Annotated[int, typer.Option(help="Of the requests that are compared.")] = 0,
    limit: Annotated[
        int,
        typer.Option(
            help="Look at the first so many requests only; a million takes 0.3 GiB.",
            min=2,
            max=100_000_000,
        ),
    ] = 3_000_000,
    force: Annotated[bool, typer.Option("--force", help="Replace the profile.")] = False,
    as_json: options.Json = False,
) -> None:
    """Make a work profile of a trace, without its addresses, and tell how well it matches."""
    options.show(tk.open(trace).fit(**options.given(context)), as_json=as_json)
