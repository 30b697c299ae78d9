"""`tracekit simulate sensitivity`: does the recommendation hold?"""

from __future__ import annotations

from typing import Annotated

import typer

import tracekit as tk
from tracekit.commands import options


def sensitivity(
    context: typer.Context,
    trace: options.Recommended,
    *,
    placement: options.Placement = "answer",
    factors: Annotated[
        str, typer.Option(help="How many times as long each part of a device takes.")
    ] = "0.5,2",
    windows: Annotated[
        str | None,
        typer.Option(
            help="How many windows of equal numbers of requests, or how long one is, such as"
            " 10min.",
            metavar="N|DURATION",
            show_default="an hour each in a trace of three or more, else 8",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Say whether the recommendation holds: other devices, each window, other capacities."""
    options.show(tk.open(trace).simulate.sensitivity(**options.given(context)), as_json=as_json)
