"""`tracekit import`: a trace of another tool becomes a trace folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from tracekit.errors import escape


def import_(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="The trace, compressed or not; - for a pipe. Of OCTF: its folder, or all files.",
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="New trace folder. [default: NAME-trace]"),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="The format's name. [default: known by the content]"),
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
    force: Annotated[bool, typer.Option("--force", help="Replace the trace folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Turn a trace of another tool, known by its content, into a trace folder."""
    from tracekit.progress import byte_progress
    from tracekit.readers.files import default_output
    from tracekit.readers.importing import import_trace
    from tracekit.readers.units import ImportOptions

    choice = ImportOptions(
        form, columns, delimiter, tuple(unit or ()), force_units, max_bad / 100, force, regex,
        blkparse_format, layout,
    )  # fmt: skip
    with byte_progress("import") as on_bytes:
        folder = import_trace(
            sources, output or default_output(sources), choice=choice, on_bytes=on_bytes
        )
    info = folder.content
    if as_json:
        kept = ("source", "clock", "devices", "counts", "inferences", "warnings")
        result = {"trace": str(folder.path), **{key: info[key] for key in kept}}
        typer.echo(json.dumps(result, indent=2))
    else:
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
        typer.echo(f"{folder.path}")
    for doubt in info["warnings"]:
        typer.echo(f"warning: {doubt['message']}\n  {doubt['advice']}", err=True)


# The command's name is a word of the language.
import_.__name__ = "import"


def _devices(info: dict[str, Any]) -> str:
    names = [device["device"] for device in info["devices"]]
    return escape(names[0]) if len(names) == 1 else f"{len(names):,} devices"
