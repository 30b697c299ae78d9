"""`tracekit layout`: what is on disks, through all that lies on each other."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import tracekit as tk
from tracekit.commands import options


@options.of(
    tk.describe_disks,
    text=options.option(
        "Output of a program on another host, instead of this one: lsblk -J -b -O, sfdisk -d or"
        " -J, blkid, findmnt -J, /proc/swaps, dmsetup table, pvs and lvs --reportformat json,"
        " dumpe2fs -h, debugfs -R 'stat <8>', xfs_info, xfs_db, zpool status -LP, filefrag -v,"
        " mdadm --examine and --detail, /proc/mdstat. Can be repeated.",
        metavar="[DEVICE=]FILE",
    ),
    output="New layout.json, for parse, import and classify.",
    force="Replace the file.",
)
def layout(
    device: Annotated[
        list[str] | None, typer.Argument(help="Disks; without one all there are.")
    ] = None,
    *,
    as_json: options.Json = False,
    **chosen: Any,
) -> None:
    """Draw what is on disks: partitions, volumes, file systems, their journals, swap and its files.

    Nothing is traced or written to a disk. Root also sees what is on disks that are not in use.
    """
    found = tk.describe_disks(device, **chosen)
    if as_json:
        options.say_json(found.summary)
    else:
        options.say(*found.text.splitlines())
    for warning in found.warnings:
        options.say(f"warning: {warning}", err=True)
