"""`tracekit counters`: hardware and software events of a command beside its throughput."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import tracekit as tk
from tracekit.commands import options
from tracekit.commands.options import option


@options.of(
    tk.counters,
    output="Folder for the results: a new one, or that of a trace.",
    user=option(
        "Who the command runs as, by name or number, when this is root; setpriv and env, which"
        " begin it then, are counted too.",
        show_default="who used sudo",
        metavar="USER",
    ),
    recorded=option(
        "Recorded `perf stat -j` or `-x` of one run, in place of a command, with its throughput."
        " Can be repeated.",
        "--from",
        metavar="FILE[=THROUGHPUT]",
    ),
    workload=option("Name of the workload.", show_default="the command's"),
    repeat="How often it runs; those that are there already count.",
    throughput=option(
        "Where the output says how much it did: the group of a regular expression, such as"
        " '([0-9.]+) ops/s'.",
        show_default="runs a second",
        metavar="REGEX",
    ),
    summary=option("JSON file that each run writes, with its rate.", metavar="FILE"),
    key="Where in it, with dots, such as timing.requests_per_second.",
    events=option(
        "Other events: names of perf with commas between; a space begins a group.",
        show_default="those of study D",
    ),
    timed="Count while tracekit bench or sweep measures a personality alone: not Python, nor making"
    " and removing files.",
    force="Replace the runs of a workload of this name.",
)
def counters(
    command: Annotated[
        list[str] | None, typer.Argument(help="Command to count, after `--`.")
    ] = None,
    *,
    as_json: options.Json = False,
    **chosen: Any,
) -> None:
    """Count cache, TLB and software events of a command, and which go with its throughput.

    It runs several times under perf stat; what a run counted is kept when it ends. What cannot be
    counted on this machine is named, and the rest goes on. Each workload of the folder is a line
    of the heat map in the report.
    """
    options.show(tk.counters(command or (), **chosen), as_json=as_json)
