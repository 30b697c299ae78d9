"""`tracekit generate`: the requests of a work profile, without a trace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tracekit.api.start import write_requests
from tracekit.commands import completion, options
from tracekit.commands.options import option
from tracekit.escapes import joined
from tracekit.units import format_duration


@options.of(
    write_requests,
    output=option("New trace folder, or file.", "--output", "-o", metavar="PATH"),
    format="trace: a trace folder, for every other command. plan: a plan that tracekit-replay runs."
    " fio: a job of fio, which draws its own numbers.",
    requests=option("Maximum number of requests.", show_default="100000 without --duration"),
    duration="Time that the requests cover, such as 60s or 24h.",
    seed=options.SEED,
    target_size=options.TARGET_SIZE,
    force="Replace what is there.",
)
def generate(
    profile: Annotated[
        str,
        typer.Argument(
            metavar="PROFILE",
            autocompletion=completion.work_profiles,
            help="A shipped profile (web-server, paging, log-structured) or a TOML file.",
        ),
    ],
    *,
    as_json: options.Json = False,
    **chosen: Any,
) -> None:
    """Generate the requests of a work profile; the same seed gives the same bits."""
    result = write_requests(profile, **chosen)
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
    return joined([*lines, result["output"]])
