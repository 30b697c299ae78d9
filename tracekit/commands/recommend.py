"""`tracekit recommend`: say where a small NVM should go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer


def recommend(
    trace: Annotated[Path, typer.Argument(help="Trace folder, classified.")],
    *,
    base: Annotated[
        str, typer.Option(help="Device profile that holds what is not on NVM.")
    ] = "hdd-7200",
    nvm: Annotated[str, typer.Option(help="Device profile of the NVM.")] = "dax-pcm",
    capacity: Annotated[
        str,
        typer.Option(
            help="NVM capacities to answer for, such as 64MiB or 16M,1.5GiB; the first is the"
            " headline. Default: a tenth of what the trace touched."
        ),
    ] = "",
    max_capacity: Annotated[
        str, typer.Option(help="Largest capacity of the curves. Default: all that was touched.")
    ] = "",
    coverage: Annotated[
        Literal["hottest", "start"],
        typer.Option(help="Which blocks of a role that does not fit go to NVM first."),
    ] = "hottest",
    level: Annotated[
        Literal["issued", "queued"],
        typer.Option(help="Charge requests as the device got them, or as they were queued."),
    ] = "issued",
    queueing: Annotated[
        Literal["serial", "open"],
        typer.Option(
            help="Serve requests one after the other, or let them come at their traced times and"
            " queue for each device: then mean response times are compared."
        ),
    ] = "serial",
    profiles: Annotated[
        Path | None, typer.Option(help="TOML file of own device profiles.", metavar="FILE")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Say what to place on NVM: file system, journal, swap or parts of them, at each capacity."""
    from tracekit.model.recommend import RecommendOptions
    from tracekit.model.recommend import recommend as run_recommend
    from tracekit.progress import row_progress
    from tracekit.store import TraceFolder
    from tracekit.units import parse_size

    sizes = [size for size in capacity.split(",") if size.strip()]
    options = RecommendOptions(
        base=base,
        nvm=nvm,
        capacities_bytes=tuple(parse_size(size, option="--capacity") for size in sizes),
        max_capacity_bytes=(
            parse_size(max_capacity, option="--max-capacity") if max_capacity else None
        ),
        coverage=coverage,
        level=level,
        queueing=queueing,
        profiles=profiles,
    )
    with row_progress("recommend") as on_rows:
        result = run_recommend(TraceFolder(trace), options, on_rows=on_rows)
    typer.echo(json.dumps(result, indent=2) if as_json else "\n".join(result["headline"]))
