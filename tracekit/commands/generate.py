"""`tracekit generate`: the requests of a work profile, without a trace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tracekit.choices import (
    GenerateFormat,
)
from tracekit.commands import options
from tracekit.units import format_duration


def generate(
    context: typer.Context,
    profile: Annotated[
        str,
        typer.Argument(
            metavar="PROFILE",
            help="A shipped profile (web-server, paging, log-structured) or a TOML file.",
        ),
    ],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PATH", help="New trace folder, or file.")
    ],
    format: Annotated[  # noqa: A002 - the word of the option
        GenerateFormat,
        typer.Option(
            help="trace: a trace folder, for every other command. plan: a plan that tracekit-replay"
            " runs. fio: a job of fio, which draws its own numbers.",
        ),
    ] = "trace",
    requests: Annotated[
        int | None, typer.Option(help="Most requests.", show_default="100000 without --duration")
    ] = None,
    duration: Annotated[
        str | None, typer.Option(help="Requests of so much time, such as 60s or 24h.")
    ] = None,
    seed: options.Seed = 0,
    target_size: options.TargetSize = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
    as_json: options.Json = False,
) -> None:
    """Make requests of a work profile: seeded, the same bit for bit each time."""
    from tracekit.api.start import write_requests

    result = write_requests(profile, **options.given(context))
    typer.echo(json.dumps(result, indent=2) if as_json else _text(result))


def _text(result: Mapping[str, Any]) -> str:
    if result["format"] == "fio":
        lines = [f"a job of {result['sections']} sections, of the profile {result['profile']}"]
        lines += [f"  fio differs: {line}" for line in result["changed"]]
    else:
        lines = [
            f"{result['requests']:,} requests of the profile {result['profile']}"
            f" in {format_duration(result['duration_ns'])}, seed {result['seed']}"
        ]
        lines += [f"  {name:<13}{rows:>12,}" for name, rows in result["operations"].items()]
    return "\n".join([*lines, result["output"]])
