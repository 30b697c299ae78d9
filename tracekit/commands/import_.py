"""`tracekit import`: a trace of another tool becomes a trace folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import tracekit as tk
from tracekit.commands import options
from tracekit.errors import escape


def import_(
    context: typer.Context,
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="The trace, compressed or not; - for a pipe. Of OCTF: its folder, or all files.",
        ),
    ],
    *,
    output: options.NewTrace = None,
    format: Annotated[  # noqa: A002 - the word of the option
        str | None, typer.Option(help="The format's name. [default: known by the content]")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Columns of your own text: time, op, offset, length, response, device, process"
            " and pid in their order, - for what to pass over, as in: -,time,op,length,offset."
        ),
    ] = None,
    regex: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="A regular expression of a line of your own text, with groups named as the"
            " columns: (?P<time>[0-9.]+) and so on.",
        ),
    ] = None,
    blkparse_format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT", help="What was given to blkparse -f, for a text made with it."
        ),
    ] = None,
    layout: Annotated[
        Path | None,
        typer.Option(
            help="layout.json or an sfdisk dump, of a text of events."
            " [default: layout.json beside it]"
        ),
    ] = None,
    delimiter: Annotated[str, typer.Option(help="Between the columns of your own text.")] = ",",
    unit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT=UNIT",
            help="Unit of time (ns, us, filetime, ms, s, date) or response (those but date),"
            " offset or length (bytes, sectors, pages), in place of the format's; may be repeated.",
        ),
    ] = None,
    force_units: Annotated[
        bool, typer.Option("--force-units", help="Go on although the units look wrong.")
    ] = False,
    max_bad: Annotated[
        float, typer.Option(min=0, max=100, help="Percent of wrong lines that stop the import.")
    ] = 1.0,
    force: options.ForceTrace = False,
    as_json: options.Json = False,
) -> None:
    """Turn a trace of another tool, known by its content, into a trace folder."""
    made = tk.read(sources, **{"output": options.default_output(sources), **options.given(context)})
    if as_json:
        typer.echo(json.dumps(made.summary, indent=2))
    else:
        _print(made.summary)
    options.warn(made)


def _print(info: Mapping[str, Any]) -> None:
    counts, seconds = info["counts"], info["clock"]["duration_ns"] / 1e9
    typer.echo(
        f"{counts['requests']:,} requests of {_devices(info)}"
        f" in {seconds:,.3f} s ({info['source']['format']})"
    )
    for name, rows in counts["operations"].items():
        typer.echo(f"  {name:<13}{rows:>12,}")
    if counts.get("preamble_lines"):
        typer.echo(f"  {counts['preamble_lines']:,} lines before the first request passed over")
    if counts["passed_lines"]:
        typer.echo(f"  {counts['passed_lines']:,} lines without a request passed over")
    typer.echo(f"  {counts['bad_lines']:,} wrong lines left out")
    typer.echo(info["trace"])


def _devices(info: Mapping[str, Any]) -> str:
    names = [device["device"] for device in info["devices"]]
    return escape(names[0]) if len(names) == 1 else f"{len(names):,} devices"
