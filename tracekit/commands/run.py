"""`tracekit run`: from a capture to the answer and its report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import tracekit as tk
from tracekit.choices import (
    RunReplay,
)
from tracekit.commands import options

if TYPE_CHECKING:
    from tracekit.pipeline import Step


def run(
    context: typer.Context,
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT...",
            help="blktrace files of one trace, a folder of them, or a trace folder.",
        ),
    ],
    *,
    output: options.NewTrace = None,
    layout: options.Layout = None,
    force: options.ForceTrace = False,
    base: options.Base = "hdd-7200",
    nvm: options.Nvm = "dax-pcm",
    capacity: options.Capacity = "",
    replay: Annotated[
        RunReplay,
        typer.Option(
            help="file: on a file made for the run; null: without I/O; none: do not replay."
        ),
    ] = "file",
    replay_duration: Annotated[
        str, typer.Option(help="How much of the trace to replay, from its start; 0 is all.")
    ] = "5s",
    as_json: options.Json = False,
) -> None:
    """Do parse, classify, analyze, recommend, replay and report in one go."""
    found = tk.run(
        inputs,
        **{"output": options.run_output(inputs), **options.given(context)},
        on_step=_print_step,
    )
    if as_json:
        typer.echo(json.dumps(found.summary, indent=2))
    else:
        typer.echo("\n".join([f"report: {found.report}", "", found.headline]))
    found.check()


def _print_step(step: Step) -> None:
    typer.echo(f"{step.stage:<10}{step.elapsed_ns / 1e9:>7.1f} s  {step.note}", err=True)
