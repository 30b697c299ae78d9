"""`tracekit fit`: a trace becomes a work profile that can be shared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from tracekit.progress import stage_progress


def fit(
    context: typer.Context,
    trace: Annotated[Path, typer.Argument(help="Trace folder.")],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="New profile, a TOML file.")
    ],
    processes: Annotated[
        int,
        typer.Option(help="Most processes, by role and device, with a stream of their own.", min=1),
    ] = 8,
    names: Annotated[
        bool, typer.Option("--names", help="Keep the names of processes; else they are numbered.")
    ] = False,
    measured: Annotated[
        bool,
        typer.Option(
            "--measured", help="Keep quantiles of the gaps even where a distribution comes close."
        ),
    ] = False,
    compare: Annotated[
        bool,
        typer.Option(help="Make as many requests of the profile, and tell how they differ."),
    ] = True,
    seed: Annotated[int, typer.Option(help="Of the requests that are compared.")] = 0,
    limit: Annotated[
        int,
        typer.Option(
            help="Look at the first so many requests only; a million takes 0.3 GiB.",
            min=2,
            max=100_000_000,
        ),
    ] = 3_000_000,
    force: Annotated[bool, typer.Option("--force", help="Replace the profile.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Make a work profile of a trace, without its addresses, and tell how well it matches."""
    from tracekit.commands.provenance import words
    from tracekit.store import TraceFolder
    from tracekit.workload.fit import FitOptions, StreamOptions
    from tracekit.workload.fit import fit as run

    options = FitOptions(
        fit=StreamOptions(processes, names, measured),
        limit=limit,
        seed=seed,
        compares=compare,
        overwrite=force,
        asked=tuple(words(context)),
    )
    with stage_progress() as on_stage:
        result = run(TraceFolder(trace), output, options=options, on_stage=on_stage)
    typer.echo(json.dumps(result, indent=2) if as_json else "\n".join(_lines(result)))


def _lines(result: dict[str, Any]) -> Iterator[str]:
    from tracekit.errors import escape

    streams = len(result["streams"])
    yield f"{result['requests']:,} requests, {streams} {'stream' if streams == 1 else 'streams'}"
    for why, count in result["left_out"].items():
        yield f"  left out, {why}: {count:,}"
    for stream in result["streams"]:
        name = escape(stream["process"] or "-")
        yield f"  {stream['role']:<8} {name:<16} {stream['requests']:>12,} requests"
    yield from result["headline"]
    yield str(result["profile"])
