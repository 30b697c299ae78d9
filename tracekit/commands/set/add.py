"""`tracekit set add`: trace folders become volumes of a set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tracekit as tk
from tracekit.commands import options


def add(
    place: options.TraceSet,
    traces: Annotated[
        list[Path] | None, typer.Argument(help="Trace folders or their URLs.", metavar="TRACE...")
    ] = None,
    *,
    as_json: options.Json = False,
) -> None:
    """Add trace folders to a set, which is made where there is none; their tables are linked.

    Without traces the catalogue is made anew of the trace folders in the set's folder: of those
    that were copied there by hand, without those that are gone.
    """
    options.show(tk.add_to_set(place, *(traces or ())), as_json=as_json)
