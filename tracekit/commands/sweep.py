"""`tracekit sweep`: personalities run on directories, over file counts, call sizes and threads."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import tracekit as tk
from tracekit.commands import completion, options
from tracekit.commands.options import option


@options.of(
    tk.sweep,
    target=option(
        "Directory to run in, of any file system; memory:DIRECTORY[:MEMORY], one of memory"
        " (tmpfs, DAX) as persistent memory, with the times of optane-pmem-100,"
        " optane-pmem-100-single, pcm, cxl, or READ:WRITE for each 64 bytes;"
        " or a new ext4 in a virtual machine: lab:dax=SIZE[:MEMORY] (DAX on persistent memory;"
        " the same times), lab:pmem=SIZE (without DAX), lab:fs=SIZE[:LATENCY[:DEPTH]] (a disk)."
        " NAME= names it in tables.",
        metavar="[NAME=]TARGET",
    ),
    output="Folder for results; runs that it holds are not repeated.",
    files=option("Numbers of files, such as 10000,100000.", metavar="LIST"),
    io_size=option(
        "Sizes of a call, such as 64B,1KiB,16KiB: io_size and append_size.", metavar="LIST"
    ),
    threads=option("Numbers of threads, such as 1,2,4,8.", metavar="LIST"),
    vary=option("Values of any other parameter of the personality.", metavar="KEY=VALUE,..."),
    duration=option(
        "Measured time of each run.", show_default="60s; what a file of filebench says"
    ),
    warm_up="Time before it.",
    repeat="Repeats of each, for mean and spread; each with its own seed and plan.",
    until=option(
        "Repeat further until half of the 95% interval of a point's rate is at most this;"
        " --repeat is then the least, and 100 or `,repeats=N` the most.",
        metavar="precision=N%",
    ),
    cache="After the files are made: keep them in memory, sync, or also drop the page cache.",
    seed="Random seed of sizes, files and the order of runs.",
    force="Remove what a run kept on a target.",
    exact="In the lab: time by instructions, on one processor.",
    operations="Keep a row for each operation (48 bytes and less).",
    report="Write report.html with the figures.",
)
def sweep(
    personality: Annotated[
        list[str],
        typer.Argument(
            metavar="PERSONALITY...",
            autocompletion=completion.personalities,
            help="Shipped ones (fileserver, webserver, webproxy, varmail, zip, unzip, ffsb) or"
            " TOML files.",
        ),
    ],
    *,
    as_json: options.Json = False,
    **chosen: Any,
) -> None:
    """Run personalities on directories: throughput and latency by step, mean and spread."""
    options.show(tk.sweep(personality, **chosen), as_json=as_json)
