"""`tracekit verify-placement`: does the model's prediction hold in a replay?"""

from __future__ import annotations

from typing import Annotated

import typer

import tracekit as tk
from tracekit.choices import (
    Engine,
)
from tracekit.commands import options


def verify_placement(
    context: typer.Context,
    trace: options.Recommended,
    *,
    placement: options.Placement = "answer",
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="Real devices or files: PATH for the base and nvm=PATH for NVM. Can be repeated.",
            show_default="none: both are emulated",
        ),
    ] = None,
    engine: Annotated[
        Engine | None,
        typer.Option(
            help="How to replay; dax and null cannot tell.",
            show_default="emulated; auto with a --target",
        ),
    ] = None,
    write_to: options.Confirm = None,
    duration: Annotated[
        str,
        typer.Option(help="Replay the first requests, as many as take this long by the model."),
    ] = "10s",
    repeat: Annotated[int, typer.Option(help="How often each is replayed, in turn.")] = 3,
    tolerance: Annotated[
        float, typer.Option(help="How far the gain may be off, as a share of the base's time.")
    ] = 0.05,
    profiles: options.Profiles = None,
    as_json: options.Json = False,
) -> None:
    """Replay base and recommended placement, and say whether the model's prediction held."""
    options.show(tk.open(trace).verify_placement(**options.given(context)), as_json=as_json)
