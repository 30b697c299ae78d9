"""`tracekit analyze`: run the SQL analyses over a trace folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import tracekit as tk
from tracekit.commands import completion, options
from tracekit.commands.options import option
from tracekit.errors import UsageError
from tracekit.units import MIB


@options.of(
    tk.Trace.analyze,
    tk.Set.analyze,
    only=option(
        "Run this analysis; may be repeated.", metavar="NAME", autocompletion=completion.analyses
    ),
    param=option(
        "Set a parameter of the analyses that have it; see --list for units and defaults.",
        metavar="NAME=NUMBER",
    ),
    memory="Memory for the database, at least 256MiB; more lets more threads run.",
    engine=options.SET_ENGINE,
    master=options.MASTER,
)
def analyze(
    trace: Annotated[
        Path | None, options.trace_folder("Trace folder or set, after `tracekit classify`.")
    ] = None,
    *,
    show_list: Annotated[
        bool, typer.Option("--list", help="Show the analyses with their parameters and stop.")
    ] = False,
    as_json: options.Json = False,
    **chosen: Any,
) -> None:
    """Run the SQL analyses and write one table each to the trace's findings."""
    if show_list:
        _print_list(as_json=as_json)
        return
    if trace is None:
        raise UsageError("no trace folder was given", hint="tracekit analyze TRACE")
    opened = options.opened(trace, chosen)
    if isinstance(opened, tk.Set):
        options.show(opened.analyze(**chosen), as_json=as_json)
        return
    found = opened.analyze(**chosen)
    if as_json:
        options.say_json(found.summary)
    else:
        _print(trace, found.summary)
    for warning in found.warnings:
        options.say(f"warning: {warning}", err=True)


def _print_list(*, as_json: bool) -> None:
    from tracekit.analyze import ANALYSES
    from tracekit.query import read

    queries = [read(name) for name in ANALYSES]
    if as_json:
        listed = [
            {
                "name": query.name,
                "question": query.question,
                "grain": query.grain,
                "reads": query.reads,
                "parameters": [vars(parameter) for parameter in query.parameters],
                "columns": query.columns,
            }
            for query in queries
        ]
        options.say_json(listed)
        return
    for query in queries:
        options.say(f"{query.name}: {query.question}")
        for parameter in query.parameters:
            options.say(
                f"    {parameter.name}={parameter.default} {parameter.unit}, {parameter.low} to"
                f" {parameter.high}: {parameter.meaning}"
            )


def _print(trace: Path, result: Mapping[str, Any]) -> None:
    totals = result["totals"]
    if totals:
        options.say("role       requests    read MiB   write MiB   flushes   distinct MiB")
    for row in totals:
        options.say(
            f"{row['role']:<8}{row['request_count']:>11,}{row['read_bytes'] / MIB:>12,.1f}"
            f"{row['write_bytes'] / MIB:>12,.1f}{row['flush_count'] + row['preflush_count']:>10,}"
            f"{row['distinct_sectors'] * 512 / MIB:>15,.1f}"
        )
        if row["unknown_bytes"]:
            unknown = row["unknown_bytes"] / MIB
            options.say(f"{unknown:>31,.1f} MiB of requests whose operation is not known")
    latency = [row for row in result["latency"] if row["step"] == "wait"]
    if latency:
        options.say("", "queued to completed         requests      p50 us      p99 us      max us")
    for row in latency:
        flushes_first = row["is_preflush"] and row["operation"] != "flush"
        kind = f"{row['role']} {row['operation']}{' after flush' if flushes_first else ''}"
        options.say(
            f"{kind:<26}{row['request_count']:>10,}{row['latency_p50_ns'] / 1e3:>12,.1f}"
            f"{row['latency_p99_ns'] / 1e3:>12,.1f}{row['latency_max_ns'] / 1e3:>12,.1f}"
        )
    options.say(
        "",
        f"{len(result['findings'])} tables in {options.shown_path(trace)}/findings"
        f", {sum(finding['elapsed_ns'] for finding in result['findings']) / 1e9:.1f} s",
    )
