"""`tracekit formats`: the formats of traces that import knows, listed or in full."""

from __future__ import annotations

import json
from typing import Annotated

import typer

import tracekit as tk
from tracekit.commands import completion, options
from tracekit.errors import PartialError


def formats(
    name: Annotated[
        list[str] | None,
        typer.Argument(
            help="Formats to show in full, or format files.", autocompletion=completion.formats
        ),
    ] = None,
    *,
    as_json: options.Json = False,
) -> None:
    """List the formats of traces that import knows, and your own; or show some in full.

    With a name: an example, what the format cannot hold, and where to find such traces.
    """
    found = tk.formats(options.shown_names(name))
    typer.echo(json.dumps(found.summary, indent=2) if as_json else found.text)
    if broken := found.summary["broken"]:
        raise PartialError(
            f"{len(broken)} of the format files cannot be read", *broken, hint="mend or remove them"
        )
