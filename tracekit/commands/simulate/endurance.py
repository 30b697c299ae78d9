"""`tracekit simulate endurance`: what the writes do to the NVM, and what it costs."""

from __future__ import annotations

from typing import Annotated

import typer

import tracekit as tk
from tracekit.commands import options


def endurance(
    context: typer.Context,
    trace: options.Recommended,
    *,
    placement: options.Placement = "answer",
    device: Annotated[
        str,
        typer.Option(
            help="Profile or what-if device of the NVM.", show_default="the recommendation's"
        ),
    ] = "",
    write_amplification: Annotated[
        float, typer.Option(help="Writes of the device for each page that is written.")
    ] = 1.0,
    what_if: options.WhatIf = None,
    profiles: options.Profiles = None,
    as_json: options.Json = False,
) -> None:
    """Say how often pages are written, how long NVM of each placement lasts, and its price."""
    options.show(tk.open(trace).simulate.endurance(**options.given(context)), as_json=as_json)
