"""`tracekit simulate buffer`: what row buffers of an NVRAM would give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def buffer(
    context: typer.Context,
    trace: Annotated[Path, typer.Argument(help="Trace folder, parsed.")],
    *,
    sizes: Annotated[
        str, typer.Option(help="Sizes of a buffer: powers of two from 32 to 64KiB.")
    ] = "32,64,128,256,512,4KiB",
    buffers: Annotated[str, typer.Option(help="Numbers of buffers, 1 to 1024.")] = "1,2,4,8,16",
    access: Annotated[
        str, typer.Option(help="Size of an access: a power of two from 1 to 64KiB.")
    ] = "64",
    hit_ns: Annotated[float, typer.Option(help="Time of an access to an open row.")] = 12.5,
    read_ns: Annotated[float, typer.Option(help="Time to read a row into a buffer.")] = 55.0,
    write_ns: Annotated[float, typer.Option(help="Time to write a row back.")] = 150.0,
    dram_ns: Annotated[float, typer.Option(help="Time by which DRAM opens a row.")] = 25.0,
    what_if: Annotated[
        Path | None,
        typer.Option(help="TOML file of other memories' times.", metavar="FILE"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Say how often row buffers of a byte-addressable memory would hit, at any size and number."""
    from tracekit.commands.provenance import keep_asked
    from tracekit.model.buffer import BufferOptions, simulate_buffer
    from tracekit.model.what_if import Times
    from tracekit.progress import row_progress
    from tracekit.store import TraceFolder
    from tracekit.units import parse_size

    options = BufferOptions(
        tuple(sorted({parse_size(text, option="--sizes") for text in sizes.split(",")})),
        tuple(sorted({parse_size(text, option="--buffers") for text in buffers.split(",")})),
        parse_size(access, option="--access"),
        Times(hit_ns, read_ns, write_ns, dram_ns),
        what_if,
    )
    with row_progress("read requests") as on_rows:
        result = simulate_buffer(TraceFolder(trace), options, on_rows=on_rows)
    keep_asked(TraceFolder(trace), result, context=context)
    typer.echo(json.dumps(result, indent=2) if as_json else "\n".join(result["headline"]))
    if result["left_out"]["impossible"]:
        typer.echo(f"requests left out, impossible: {result['left_out']['impossible']:,}", err=True)
