"""`tracekit characterize-device`: what a device does, and a profile fitted to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import tracekit as tk
from tracekit.commands import completion, options
from tracekit.commands.options import option


@options.of(
    tk.characterize_device,
    output="Folder for the results: a new one, or that of a trace.",
    device=option(
        "Device profile to emulate; without TARGET no data moves.",
        autocompletion=completion.device_profiles,
    ),
    profiles=options.PROFILES,
    engine="How to do I/O; emulated takes the times of --device.",
    size=option("How much of it is used.", show_default="all; 1GiB of a new file"),
    write_to="Allow all of --size of this existing target to be overwritten: the absolute path of"
    " a file, or the name that a run without this option prints for a device. Without it, only"
    " reads are measured.",
    overwrite_signature=options.OVERWRITE_SIGNATURE,
    direct="Whether to use O_DIRECT.",
    fill="Percent of the size to write in sequence first, up to 200; of an emulated device and with"
    " --quick up to 100.",
    precondition="Random requests after that, 20% of them writes, at depth 256.",
    writes="Random 4 KiB writes at depth 1.",
    reads="Random 4 KiB reads at depth 1.",
    sizes="Requests of each longer length.",
    flushes="Writes with a flush, with FUA, and reads with a flush.",
    surface="Requests of each write share and depth.",
    write_percents="Write shares of the surface, in percent.",
    depths="Depths of the surface.",
    scale="Scale all request counts; the fill is not scaled.",
    quick="A hundredth of the requests, a coarser surface.",
    trace=option(
        "Trace folder that the profile is for: requests are measured among those of one half of"
        " it.",
        metavar="TRACE",
    ),
    name=option("Name of the fitted profile.", show_default="after the target"),
    like=option("Profile from which to take what was not measured.", metavar="PROFILE"),
    price=option("Price per gigabyte, for the profile.", show_default="1"),
    seed="Random seed of the places.",
    keep="Keep a temporary file.",
    force="Start anew and replace results.",
)
def characterize_device(
    target: Annotated[
        Path | None,
        typer.Argument(
            help="File or block device; a file that does not exist is made and removed afterwards."
            " Can be left out with --device."
        ),
    ] = None,
    *,
    as_json: options.Json = False,
    **chosen: Any,
) -> None:
    """Measure a device's latencies and IOPS as study B does, and fit a device profile to them.

    The device is filled and written at random first, so everything on it is lost: an existing
    target is written only with --write-to, as for replay. The same command again continues an
    interrupted run.
    """
    options.show(tk.characterize_device(target, **chosen), as_json=as_json)
