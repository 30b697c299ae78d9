"""`tracekit profiles`: the device profiles, listed, in full, or side by side."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

import tracekit as tk
from tracekit.commands import completion, options


@options.of(tk.profiles, profiles=options.PROFILES)
def profiles(
    name: Annotated[
        list[str] | None,
        typer.Argument(
            help="Profiles to show; of several each figure stands beside the others.",
            autocompletion=completion.device_profiles,
        ),
    ] = None,
    *,
    as_json: options.Json = False,
    **chosen: Any,
) -> None:
    """List the device profiles, or show or compare some: times, endurance, price, sources.

    Figures of further profiles are also given as multiples of the first one's.
    """
    found = tk.profiles(options.shown_names(name), **chosen)
    typer.echo(json.dumps(found.summary, indent=2) if as_json else found.text)
