"""`tracekit recommend`: say where a small NVM should go."""

from __future__ import annotations

from typing import Annotated

import typer

import tracekit as tk
from tracekit.choices import Coverage, Level, Queueing
from tracekit.commands import options


def recommend(
    context: typer.Context,
    trace: options.Classified,
    *,
    base: options.Base = "hdd-7200",
    nvm: options.Nvm = "dax-pcm",
    capacity: options.Capacity = "",
    max_capacity: Annotated[
        str, typer.Option(help="Largest capacity of the curves. Default: all that was touched.")
    ] = "",
    coverage: Annotated[
        Coverage, typer.Option(help="Which blocks of a role that does not fit go to NVM first.")
    ] = "hottest",
    level: Annotated[
        Level,
        typer.Option(help="Charge requests as the device got them, or as they were queued."),
    ] = "issued",
    queueing: Annotated[
        Queueing,
        typer.Option(
            help="Serve requests one after the other, or let them come at their traced times and"
            " queue for each device: then mean response times are compared."
        ),
    ] = "serial",
    profiles: options.Profiles = None,
    as_json: options.Json = False,
) -> None:
    """Say what to place on NVM: file system, journal, swap or parts of them, at each capacity."""
    options.show(tk.open(trace).recommend(**options.given(context)), as_json=as_json)
