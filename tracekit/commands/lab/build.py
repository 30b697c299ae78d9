"""`tracekit lab build`: make the guest's kernel and root file system."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def build(
    *,
    package: Annotated[
        list[str] | None,
        typer.Option(help="Package of the distribution to add. Can be repeated."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Build again what is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Make a guest from packages of Debian, without root, and keep it in the user's cache."""
    from tracekit.lab.image import build as build_image
    from tracekit.progress import stage_progress

    with stage_progress() as on_step:
        image = build_image(package or (), again=force, on_step=on_step)
    about = json.loads((image.folder / "image.json").read_text())
    if as_json:
        typer.echo(json.dumps({"folder": str(image.folder), **about}, indent=2))
    else:
        typer.echo(f"{image.folder}: {about['kernel']}, {about['archives']} packages")
