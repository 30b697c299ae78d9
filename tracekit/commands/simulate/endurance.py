"""`tracekit simulate endurance`: what the writes do to the NVM, and what it costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def endurance(
    context: typer.Context,
    trace: Annotated[Path, typer.Argument(help="Trace folder, with a recommendation.")],
    *,
    placement: Annotated[
        str,
        typer.Option(
            help="`answer` for the recommendation's capacity, or a capacity.",
            metavar="answer|SIZE",
        ),
    ] = "answer",
    device: Annotated[
        str,
        typer.Option(
            help="Profile or what-if device of the NVM.", show_default="the recommendation's"
        ),
    ] = "",
    write_amplification: Annotated[
        float, typer.Option(help="Writes of the device for each page that is written.")
    ] = 1.0,
    what_if: Annotated[
        Path | None,
        typer.Option(help="TOML file of devices, endurance and prices.", metavar="FILE"),
    ] = None,
    profiles: Annotated[
        Path | None, typer.Option(help="TOML file of own device profiles.", metavar="FILE")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Say how often pages are written, how long NVM of each placement lasts, and its price."""
    from tracekit.commands.provenance import keep_asked
    from tracekit.model.endurance import EnduranceOptions, simulate_endurance
    from tracekit.progress import step_progress
    from tracekit.store import TraceFolder

    options = EnduranceOptions(placement, device, profiles, what_if, write_amplification)
    with step_progress("simulate endurance") as on_step:
        result = simulate_endurance(TraceFolder(trace), options, on_step=on_step)
    keep_asked(TraceFolder(trace), result, context=context)
    typer.echo(json.dumps(result, indent=2) if as_json else "\n".join(result["headline"]))
