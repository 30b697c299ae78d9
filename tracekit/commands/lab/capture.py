"""`tracekit lab capture`: the block events of a command in a virtual machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from tracekit.choices import Compression
from tracekit.commands import options


def capture(
    context: typer.Context,
    command: options.GuestCommand,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="New folder, as `tracekit parse` reads it.")
    ],
    disk: Annotated[
        list[str],
        typer.Option(metavar="ROLE=SIZE[:LATENCY]", help=options.DISK_HELP),
    ],
    memory: options.GuestMemory = "1GiB",
    cpus: options.Cpus = 2,
    limit: options.GuestLimit = "0",
    share: options.Share = None,
    package: options.Packages = None,
    prepare: options.Prepare = "",
    mount: options.Mount = "",
    exact: options.Exact = False,
    timeout: options.Timeout = 600,
    compress: Annotated[Compression, typer.Option(help="Compress the record files.")] = "none",
    buffer: Annotated[
        str, typer.Option(help="Each of blktrace's 8 buffers a CPU, at least 64KiB.")
    ] = "1MiB",
    as_json: options.Json = False,
) -> None:
    """Record the block events of a command in a virtual machine, with blktrace and the layout."""
    from tracekit.api import lab

    guest = lab.capture(command, **options.given(context))
    sys.stderr.write(guest.stdout + guest.stderr)
    done = guest.summary
    if as_json:
        typer.echo(json.dumps(done, indent=2))
    else:
        typer.echo(
            f"{output}: {done['records']:,} records in {len(done['files'])} files,"
            f" {done['dropped']:,} lost; guest of {done['duration_ns'] / 1e9:.1f} s"
            f" ({done['accelerator']})"
        )
        if done["own_requests"]:
            typer.echo(f"{done['own_requests']:,} requests are of blktrace itself")
    guest.check()
