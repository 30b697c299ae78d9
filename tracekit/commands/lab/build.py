"""`tracekit lab build`: make the guest's kernel and root file system."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tracekit.commands import options


def build(
    context: typer.Context,
    *,
    package: Annotated[
        list[str] | None,
        typer.Option(help="Package of the distribution to add. Can be repeated."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Build again what is there.")] = False,
    as_json: options.Json = False,
) -> None:
    """Make a guest from packages of Debian, without root, and keep it in the user's cache."""
    from tracekit.api import lab

    made = lab.build(**options.given(context))
    if as_json:
        typer.echo(json.dumps(made, indent=2))
    else:
        typer.echo(f"{made['folder']}: {made['kernel']}, {made['archives']} packages")
