"""`tracekit simulate sensitivity`: does the recommendation hold?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tracekit.errors import UsageError


def sensitivity(
    context: typer.Context,
    trace: Annotated[Path, typer.Argument(help="Trace folder, with a recommendation.")],
    *,
    placement: Annotated[
        str,
        typer.Option(
            help="`answer` for the recommendation's headline, or a capacity.",
            metavar="answer|SIZE",
        ),
    ] = "answer",
    factors: Annotated[
        str, typer.Option(help="How many times as long each part of a device takes.")
    ] = "0.5,2",
    windows: Annotated[
        str | None,
        typer.Option(
            help="How many windows of equal numbers of requests, or how long one is, such as"
            " 10min.",
            metavar="N|DURATION",
            show_default="an hour each in a trace of three or more, else 8",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Say whether the recommendation holds: other devices, each window, other capacities."""
    from msgspec import to_builtins

    from tracekit.commands.provenance import keep_asked
    from tracekit.model.sensitivity import SensitivityOptions, simulate_sensitivity
    from tracekit.progress import step_progress
    from tracekit.store import TraceFolder

    options = SensitivityOptions(
        placement=placement,
        factors=tuple(sorted({_factor(text) for text in factors.split(",")})),
        windows=windows,
    )
    with step_progress("simulate") as on_step:
        result = to_builtins(simulate_sensitivity(TraceFolder(trace), options, on_step=on_step))
    keep_asked(TraceFolder(trace), result, context=context)
    typer.echo(json.dumps(result, indent=2) if as_json else "\n".join(result["headline"]))


def _factor(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            f"--factors: '{text}' is not a number", hint="for example --factors 0.5,2"
        ) from None
