"""`tracekit generate`: the requests of a work profile, without a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer


def generate(
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
    form: Annotated[
        Literal["trace", "plan", "fio"],
        typer.Option(
            "--format",
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
    seed: Annotated[int, typer.Option(help="Another one gives other requests.")] = 0,
    target_size: Annotated[
        str | None,
        typer.Option(help="Size of the target, in place of the profile's.", metavar="SIZE"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Make requests of a work profile: seeded, the same bit for bit each time."""
    from tracekit.progress import row_progress
    from tracekit.workload.generate import asked_extent, asked_profile
    from tracekit.workload.generate import generate as make

    extent = asked_extent(requests, duration, seed=seed)
    chosen = asked_profile(profile, target_size)
    with row_progress("generate") as on_rows:
        result = make(chosen, output, form=form, extent=extent, overwrite=force, on_rows=on_rows)
    typer.echo(json.dumps(result, indent=2) if as_json else _text(result))


def _text(result: dict[str, Any]) -> str:
    from tracekit.units import format_duration

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
