"""`tracekit sweep`: personalities run on directories, over file counts, call sizes and threads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tracekit as tk
from tracekit.choices import (
    CacheState,
)
from tracekit.commands import options


def sweep(
    context: typer.Context,
    personality: Annotated[
        list[str],
        typer.Argument(
            metavar="PERSONALITY...",
            help="Shipped ones (fileserver, webserver, webproxy, varmail, zip, unzip, ffsb) or"
            " TOML files.",
        ),
    ],
    *,
    target: Annotated[
        list[str],
        typer.Option(
            help="Directory to run in, of any file system; memory:DIRECTORY[:READ:WRITE], one"
            " of memory (tmpfs, DAX) as persistent memory, with times that slower memory adds to"
            " each 64 bytes; or a new ext4 in a virtual machine: lab:dax=SIZE[:READ:WRITE] (DAX on"
            " persistent memory; the same times), lab:pmem=SIZE (without DAX),"
            " lab:fs=SIZE[:LATENCY[:DEPTH]] (a disk). NAME= names it in tables.",
            metavar="[NAME=]TARGET",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder of results; what it has is not run again."),
    ],
    files: Annotated[
        str, typer.Option(help="Numbers of files, such as 10000,100000.", metavar="LIST")
    ] = "",
    io_size: Annotated[
        str,
        typer.Option(
            help="Sizes of a call, such as 64,1KiB,16KiB: io_size and append_size.", metavar="LIST"
        ),
    ] = "",
    threads: Annotated[
        str, typer.Option(help="Numbers of threads, such as 1,2,4,8.", metavar="LIST")
    ] = "",
    vary: Annotated[
        list[str] | None,
        typer.Option(
            help="Values of any other parameter of the personality.", metavar="KEY=VALUE,..."
        ),
    ] = None,
    duration: Annotated[str, typer.Option(help="Measured time of each run.")] = "60s",
    warm_up: Annotated[str, typer.Option(help="Time before it.")] = "0s",
    repeat: Annotated[int, typer.Option(help="Repeats of each, for mean and spread.")] = 5,
    cache: Annotated[
        CacheState,
        typer.Option(
            help="After the files are made: keep them in memory, sync, or also drop the page cache."
        ),
    ] = "sync",
    seed: Annotated[int, typer.Option(help="Another one draws other sizes and files.")] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Remove what a run kept on a target.")
    ] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="In the lab: time by instructions, on one processor.")
    ] = False,
    operations: Annotated[
        bool,
        typer.Option("--operations", help="Keep a row for each operation (48 bytes and less)."),
    ] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write report.html with the figures.")
    ] = True,
    as_json: options.Json = False,
) -> None:
    """Run personalities on directories: throughput and latency by step, mean and spread."""
    options.show(tk.sweep(personality, **options.given(context)), as_json=as_json)
