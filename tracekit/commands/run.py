"""`tracekit run`: from a capture to the answer and its report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.errors import PartialError
from tracekit.progress import stage_progress

if TYPE_CHECKING:
    from tracekit.pipeline import Run, Step


def run(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT...",
            help="blktrace files of one trace, a folder of them, or a trace folder.",
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="New trace folder. [default: NAME-trace]"),
    ] = None,
    layout: Annotated[
        Path | None,
        typer.Option(help="layout.json or an sfdisk dump. [default: layout.json beside the input]"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the trace folder.")] = False,
    base: Annotated[
        str | None,
        typer.Option(help="Device profile that holds what is not on NVM.", show_default="hdd-7200"),
    ] = None,
    nvm: Annotated[
        str | None, typer.Option(help="Device profile of the NVM.", show_default="dax-pcm")
    ] = None,
    capacity: Annotated[
        str,
        typer.Option(
            help="NVM capacities to answer for, such as 64MiB or 16M,1.5GiB; the first is the"
            " headline. Default: a tenth of what the trace touched."
        ),
    ] = "",
    replay: Annotated[
        str,
        typer.Option(
            help="file: on a file made for the run; null: without I/O; none: do not replay."
        ),
    ] = "file",
    replay_seconds: Annotated[
        float, typer.Option(help="Replay so many seconds of the trace, from its start; 0 is all.")
    ] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Do parse, classify, analyze, recommend, replay and report in one go."""
    from tracekit.pipeline import PipelineOptions
    from tracekit.pipeline import run as run_stages
    from tracekit.units import parse_size

    sizes = [size for size in capacity.split(",") if size.strip()]
    options = PipelineOptions(
        layout=layout,
        overwrite=force,
        base=base,
        nvm=nvm,
        capacities_bytes=tuple(parse_size(size, option="--capacity") for size in sizes),
        replay=replay,
        replay_seconds=replay_seconds,
    )
    with stage_progress() as on_stage:
        result = run_stages(inputs, output, options=options, on_stage=on_stage, on_step=_tell)
    typer.echo(json.dumps(_result(result), indent=2) if as_json else _text(result))
    if result.unfinished:
        raise PartialError("; ".join(result.unfinished))


def _tell(step: Step) -> None:
    typer.echo(f"{step.stage:<10}{step.elapsed_ns / 1e9:>7.1f} s  {step.note}", err=True)


def _text(result: Run) -> str:
    return "\n".join([f"report: {result.report}", "", *result.headline])


def _result(result: Run) -> dict[str, Any]:
    return {
        "trace": str(result.trace),
        "report": str(result.report),
        "headline": result.headline,
        "steps": [vars(step) for step in result.steps],
        "unfinished": result.unfinished,
    }
