"""`tracekit compare`: replays of a trace side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def compare(
    trace: Annotated[Path, typer.Argument(help="Trace folder, with replays.")],
    names: Annotated[
        list[str],
        typer.Argument(
            help="Replays; a name whose repeats are NAME.1, NAME.2, ...; or `trace` for what was"
            " traced. The others are compared with the first.",
            metavar="NAME NAME...",
        ),
    ],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Compare latency by role and operation and elapsed time of replays, with their confidence."""
    from tracekit.compare import compare as run_compare
    from tracekit.compare import read_rows, table
    from tracekit.store import TraceFolder

    folder = TraceFolder(trace)
    result = run_compare(folder, names)
    if as_json:
        typer.echo(json.dumps({**result, "rows": read_rows(folder)}, indent=2))
        return
    typer.echo("\n".join([*result["headline"], "", *table(read_rows(folder))]))
