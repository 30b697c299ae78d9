"""`tracekit characterize-device`: what a device does, and a profile fitted to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tracekit as tk
from tracekit.choices import (
    Direct,
    Engine,
)
from tracekit.commands import options


def characterize_device(
    context: typer.Context,
    target: Annotated[
        Path | None,
        typer.Argument(
            help="File or block device; a file that does not exist is made and removed afterwards."
            " Can be left out with --device."
        ),
    ] = None,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Folder for the results: a new one, or that of a trace."
        ),
    ],
    device: Annotated[
        str, typer.Option(help="Device profile to emulate; without TARGET no data moves.")
    ] = "",
    profiles: options.Profiles = None,
    engine: Annotated[
        Engine, typer.Option(help="How to do I/O; emulated takes the times of --device.")
    ] = "auto",
    size: Annotated[
        str, typer.Option(help="How much is used of it.", show_default="all; 1GiB of a new file")
    ] = "",
    write_to: Annotated[
        list[str] | None,
        typer.Option(
            help="Confirm that this existing target may be written, all of --size: the absolute"
            " path of a file, or what a run without it shows for a device. Without it only what"
            " reads is measured."
        ),
    ] = None,
    overwrite_signature: options.OverwriteSignature = None,
    direct: Annotated[Direct, typer.Option(help="Whether to use O_DIRECT.")] = "auto",
    fill: Annotated[
        int, typer.Option("--fill", help="Percent of the size to write in sequence first.")
    ] = 100,
    precondition: Annotated[
        int, typer.Option(help="Random requests then, 20 % of them writes, at depth 256.")
    ] = 1_000_000,
    writes: Annotated[int, typer.Option(help="Random 4 KiB writes at depth 1.")] = 1_000_000,
    reads: Annotated[int, typer.Option(help="Random 4 KiB reads at depth 1.")] = 5_000_000,
    sizes: Annotated[int, typer.Option(help="Requests of each longer length.")] = 5_000,
    flushes: Annotated[int, typer.Option(help="Writes with a flush, and with FUA.")] = 5_000,
    surface: Annotated[int, typer.Option(help="Requests of each write share and depth.")] = 100_000,
    write_percents: Annotated[
        str, typer.Option(help="Write shares of the surface, in percent.")
    ] = "0,20,40,60,80,100",
    depths: Annotated[
        str, typer.Option(help="Depths of the surface.")
    ] = "1,2,4,8,16,32,64,128,256",
    scale: Annotated[
        float, typer.Option(help="Factor of all numbers of requests; what is filled stays.")
    ] = 1.0,
    quick: Annotated[
        bool, typer.Option("--quick", help="A hundredth of the requests, a coarser surface.")
    ] = False,
    name: Annotated[
        str, typer.Option(help="Name of the fitted profile.", show_default="after the target")
    ] = "",
    like: Annotated[
        str, typer.Option(help="Profile that gives what was not measured.", metavar="PROFILE")
    ] = "",
    price: Annotated[
        float | None, typer.Option(help="Price a gigabyte for the profile.", show_default="1")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random places; the same gives the same.")] = 1,
    keep: Annotated[bool, typer.Option("--keep", help="Keep a file made for the run.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Begin anew, replace results.")] = False,
    as_json: options.Json = False,
) -> None:
    """Measure a device's latencies and IOPS as study B does, and fit a device profile to them.

    The device is filled and written at random first, so everything on it is lost: an existing
    target is written only with --write-to, as for replay. An interrupted run goes on when the
    same command is given again.
    """
    options.show(tk.characterize_device(target, **options.given(context)), as_json=as_json)
