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
        "User that the command runs as, by name or number, when root starts it; setpriv and env,"
        " which start it, are counted too.",
        show_default="who used sudo",
        metavar="USER",
    ),
    recorded=option(
        "Recorded `perf stat -j` or `-x` of one run, instead of a command, with its throughput."
        " Can be repeated.",
        "--from",
        metavar="FILE[=THROUGHPUT]",
    ),
    workload=option("Name of the workload.", show_default="the command's"),
    repeat="Number of runs, existing ones included.",
    throughput=option(
        "Regular expression whose group is the throughput in the output, such as '([0-9.]+)"
        " ops/s'.",
        show_default="runs a second",
        metavar="REGEX",
    ),
    summary=option("JSON file that each run writes, with its throughput.", metavar="FILE"),
    key="Its key in that file, with dots, such as timing.requests_per_second.",
    events=option(
        "Events to count, perf's names with commas between them; a space begins a group.",
        show_default="those of study D",
    ),
    timed="Count only while tracekit bench or sweep measures a personality: not Python, and not"
    " the making and removing of files.",
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
    """Count cache, TLB and software events of a command, and correlate them with throughput.

    The command runs several times under perf stat; the counts of a run are kept when it ends.
    Events that this machine cannot count are named and left out. Each workload of the folder is a
    row of the heat map in the report.
    """
    options.show(tk.counters(command or (), **chosen), as_json=as_json)
