"""`tracekit analyze`: run the SQL analyses over a trace folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.errors import UsageError
from tracekit.units import MIB

if TYPE_CHECKING:
    from tracekit.analyze import Analysis
    from tracekit.store import TraceFolder


def analyze(
    trace: Annotated[
        Path | None, typer.Argument(help="Trace folder, after `tracekit classify`.")
    ] = None,
    *,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="Run this analysis; may be repeated."),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            metavar="NAME=NUMBER",
            help="Set a parameter of the analyses that have it; see --list for units and defaults.",
        ),
    ] = None,
    memory: Annotated[
        int,
        typer.Option(
            help="Memory for the database, in MiB; more lets more threads run.",
            min=256,
            max=1 << 24,
        ),
    ] = 512,
    show_list: Annotated[
        bool, typer.Option("--list", help="Show the analyses with their parameters and stop.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run the SQL analyses and write one table each to the trace's findings."""
    if show_list:
        _print_list(as_json=as_json)
        return
    if trace is None:
        raise UsageError("no trace folder was given", hint="tracekit analyze TRACE")
    from tracekit.analyze import analyze as run_analyses
    from tracekit.progress import step_progress
    from tracekit.store import TraceFolder

    folder = TraceFolder(trace)
    parameters = dict(_parameter(text) for text in param or [])
    with step_progress("analyze") as on_start:
        analysis = run_analyses(
            folder, only=only or (), parameters=parameters, memory_mib=memory, on_start=on_start
        )
    if as_json:
        typer.echo(json.dumps(_result(folder, analysis), indent=2))
    else:
        _print(folder, analysis)
    for failure in analysis.failures:
        typer.echo(
            f"warning: {failure.name} fails for {failure.failing_count:,} rows: {failure.question}",
            err=True,
        )


def _parameter(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    try:
        return name, int(number)
    except ValueError:
        raise UsageError(
            f"--param {text}: not a name and a whole number", hint="such as window_count=100"
        ) from None


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
        typer.echo(json.dumps(listed, indent=2))
        return
    for query in queries:
        typer.echo(f"{query.name}: {query.question}")
        for parameter in query.parameters:
            typer.echo(
                f"    {parameter.name}={parameter.default} {parameter.unit}, {parameter.low} to"
                f" {parameter.high}: {parameter.meaning}"
            )


def _rows(folder: TraceFolder, analysis: Analysis, name: str) -> list[dict[str, Any]]:
    """Return the rows of a finding if this run made it."""
    import pyarrow.parquet as pq

    if name not in {finding.table for finding in analysis.findings}:
        return []
    rows: list[dict[str, Any]] = pq.read_table(folder.table(f"findings/{name}")).to_pylist()
    return rows


def _result(folder: TraceFolder, analysis: Analysis) -> dict[str, Any]:
    return {
        "trace": str(folder.path),
        "findings": [vars(finding) for finding in analysis.findings],
        "failures": [vars(failure) for failure in analysis.failures],
        "totals": _rows(folder, analysis, "totals"),
        "latency": _rows(folder, analysis, "latency"),
    }


def _print(folder: TraceFolder, analysis: Analysis) -> None:
    totals = _rows(folder, analysis, "totals")
    if totals:
        typer.echo("role       requests    read MiB   write MiB   flushes   distinct MiB")
    for row in totals:
        typer.echo(
            f"{row['role']:<8}{row['request_count']:>11,}{row['read_bytes'] / MIB:>12,.1f}"
            f"{row['write_bytes'] / MIB:>12,.1f}{row['flush_count'] + row['preflush_count']:>10,}"
            f"{row['distinct_sectors'] * 512 / MIB:>15,.1f}"
        )
    latency = [row for row in _rows(folder, analysis, "latency") if row["step"] == "wait"]
    if latency:
        typer.echo("\nqueued to completed         requests      p50 us      p99 us      max us")
    for row in latency:
        flushes_first = row["is_preflush"] and row["operation"] != "flush"
        kind = f"{row['role']} {row['operation']}{' after flush' if flushes_first else ''}"
        typer.echo(
            f"{kind:<26}{row['request_count']:>10,}{row['latency_p50_ns'] / 1e3:>12,.1f}"
            f"{row['latency_p99_ns'] / 1e3:>12,.1f}{row['latency_max_ns'] / 1e3:>12,.1f}"
        )
    typer.echo(
        f"\n{len(analysis.findings)} tables in {folder.path / 'findings'}"
        f", {sum(finding.elapsed_ns for finding in analysis.findings) / 1e9:.1f} s"
    )
