"""`tracekit simulate buffer`: what row buffers of an NVRAM would give."""

from __future__ import annotations

from typing import Annotated

import typer

import tracekit as tk
from tracekit.commands import options


def buffer(
    context: typer.Context,
    trace: options.Trace,
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
    what_if: options.WhatIf = None,
    as_json: options.Json = False,
) -> None:
    """Say how often row buffers of a byte-addressable memory would hit, at any size and number."""
    options.show(tk.open(trace).simulate.buffer(**options.given(context)), as_json=as_json)
