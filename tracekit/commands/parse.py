"""`tracekit parse`: a capture becomes a trace folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.errors import escape, span
from tracekit.units import MIB

if TYPE_CHECKING:
    from tracekit.readers.blktrace import Tally
    from tracekit.store import TraceFolder


def parse(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT...",
            help="blktrace files of one trace, compressed or not; a folder of them; - for a pipe.",
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="New trace folder. [default: NAME-trace]"),
    ] = None,
    layout: Annotated[
        Path | None,
        typer.Option(help="layout.json or an sfdisk dump. [default: layout.json beside the input]"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the trace folder.")] = False,
    salvage: Annotated[
        bool,
        typer.Option("--salvage", help="Keep the records before a place that is damaged or cut."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Decode a block trace into a trace folder of one row a request."""
    from tracekit.progress import byte_progress
    from tracekit.readers.blktrace import ParseOptions
    from tracekit.readers.blktrace import parse as parse_trace
    from tracekit.readers.files import default_output

    options = ParseOptions(layout_file=layout, overwrite=force, keeps_whole=salvage)
    with byte_progress("parse") as on_bytes:
        folder, tally = parse_trace(
            inputs, output or default_output(inputs), options=options, on_bytes=on_bytes
        )
    if as_json:
        typer.echo(json.dumps(_result(folder, tally), indent=2))
    else:
        _print(folder, tally)
    for doubt in folder.content["warnings"]:
        typer.echo(f"warning: {doubt['message']}\n  {doubt['advice']}", err=True)


def _result(folder: TraceFolder, tally: Tally) -> dict[str, Any]:
    kept = ("source", "clock", "devices", "counts", "loss", "warnings")
    operations = {
        name: {"requests": count, "bytes": tally.length_bytes[name]}
        for name, count in tally.rows.items()
    }
    return {
        "trace": str(folder.path),
        **{key: folder.content[key] for key in kept},
        "operations": operations,
    }


def _lacking(unseen: dict[str, Any] | None) -> str:
    """Say what the kernel's counters told, as far as they did."""
    if unseen is None:
        return "not known, no counters were read with it"
    if not unseen["disks"] and unseen["not_measured"]:
        return "not known"
    counted = sum(row["counted"] for row in unseen["disks"])
    return f"{span(unseen['at_least'], unseen['at_most'])} of {counted:,} that the kernel counted"


def _print(folder: TraceFolder, tally: Tally) -> None:
    info = folder.content
    counts, loss = info["counts"], info["loss"]
    devices = escape(", ".join(device["device"] for device in info["devices"]))
    seconds = info["clock"]["duration_ns"] / 1e9
    typer.echo(
        f"{counts['requests']:,} requests of {devices} in {seconds:,.3f} s"
        f", from {counts['records']:,} records ({info['source']['format']})"
    )
    for name, rows in tally.rows.items():
        if rows:
            typer.echo(f"  {name:<13}{rows:>12,}{tally.length_bytes[name] / MIB:>14,.1f} MiB")
    unmatched = sum(loss["unmatched"].values())
    missing = (
        f"{loss['lost_records']:,} records lost"
        if loss["has_sequence_numbers"]
        else "losses not known"
    )
    typer.echo(f"  {missing}, {loss['dropped']:,} dropped, {unmatched:,} events unmatched")
    typer.echo(f"  completions that the record lacks: {_lacking(loss.get('unseen'))}")
    typer.echo(f"{folder.path}")
