"""`tracekit lab run`: a command in a virtual machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from tracekit.commands import options


def run(
    context: typer.Context,
    command: options.GuestCommand,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="New folder for what the command writes into $LAB_OUT."
        ),
    ] = None,
    disk: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE=SIZE[:LATENCY]", help=options.DISK_HELP),
    ] = None,
    pmem: Annotated[
        str, typer.Option(help="Persistent memory with an ext4 on $LAB_DAX that does DAX.")
    ] = "0",
    memory: options.GuestMemory = "1GiB",
    cpus: options.Cpus = 2,
    limit: options.GuestLimit = "0",
    share: options.Share = None,
    package: options.Packages = None,
    prepare: options.Prepare = "",
    mount: options.Mount = "",
    exact: options.Exact = False,
    timeout: options.Timeout = 600,
    as_json: options.Json = False,
) -> None:
    """Run a command in a virtual machine; bring back what it prints and writes."""
    from tracekit.api import lab

    guest = lab.run(command, **options.given(context))
    if as_json:
        talk = {"stdout": guest.stdout, "stderr": guest.stderr}
        typer.echo(json.dumps({**guest.summary, **talk}, indent=2))
    else:
        sys.stdout.write(guest.stdout)
        sys.stderr.write(guest.stderr)
    guest.check()
