"""`tracekit counters`: hardware and software events of a command beside its throughput."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tracekit as tk
from tracekit.commands import options


def counters(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(help="Command to count, after `--`.")
    ] = None,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Folder for the results: a new one, or that of a trace."
        ),
    ],
    recorded: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            help="Recorded `perf stat -j` or `-x` of one run, in place of a command, with its"
            " throughput. Can be repeated.",
            metavar="FILE[=THROUGHPUT]",
        ),
    ] = None,
    workload: Annotated[
        str, typer.Option(help="Name of the workload.", show_default="the command's")
    ] = "",
    repeat: Annotated[
        int, typer.Option(help="How often it runs; those that are there already count.")
    ] = 5,
    throughput: Annotated[
        str,
        typer.Option(
            help="Where the output says how much it did: the group of a regular expression, such"
            " as '([0-9.]+) ops/s'.",
            show_default="runs a second",
            metavar="REGEX",
        ),
    ] = "",
    summary: Annotated[
        Path | None,
        typer.Option(help="JSON file that each run writes, with its rate.", metavar="FILE"),
    ] = None,
    key: Annotated[
        str, typer.Option(help="Where in it, with dots, such as timing.requests_per_second.")
    ] = "",
    events: Annotated[
        str,
        typer.Option(
            help="Other events: names of perf with commas between; a space begins a group.",
            show_default="those of study D",
        ),
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Replace the runs of a workload of this name.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Count cache, TLB and software events of a command, and which go with its throughput.

    It runs several times under perf stat; what a run counted is kept when it ends. What cannot be
    counted on this machine is named, and the rest goes on. Each workload of the folder is a line
    of the heat map in the report.
    """
    options.show(tk.counters(command or (), **options.given(context)), as_json=as_json)
