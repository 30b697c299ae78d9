"""`tracekit personalities`: the personalities and work profiles that bench runs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

import tracekit as tk
from tracekit.commands import completion, options


def personalities(
    name: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names, or files, to show the definitions of.",
            autocompletion=completion.definitions,
        ),
    ] = None,
    *,
    as_json: options.Json = False,
) -> None:
    """List the personalities and work profiles that bench runs; or show definitions, to copy.

    A personality uses files in a directory; a work profile makes requests of a file or disk.
    """
    found = tk.personalities(options.shown_names(name))
    typer.echo(json.dumps(found.summary, indent=2) if as_json else found.text)
