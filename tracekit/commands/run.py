"""`tracekit run`: from a capture to the answer and its report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import tracekit as tk
from tracekit.commands import options

if TYPE_CHECKING:
    from tracekit.pipeline import Step


@options.of(
    tk.run,
    output=options.NEW_TRACE,
    layout=options.LAYOUT,
    force=options.FORCE_TRACE,
    base=options.BASE,
    nvm=options.NVM,
    capacity=options.CAPACITY,
    replay="file: on a temporary file; null: without I/O; none: do not replay.",
    replay_duration="How much of the trace to replay, from its start; 0 is all.",
)
def run(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT...",
            help="blktrace files of one trace, a folder of them, or a trace folder.",
        ),
    ],
    *,
    as_json: options.Json = False,
    **chosen: Any,
) -> None:
    """Do parse, classify, analyze, recommend, replay and report in one go."""
    found = tk.run(inputs, **{"output": options.run_output(inputs), **chosen}, on_step=_print_step)
    if as_json:
        options.say_json(found.summary)
    else:
        options.say(f"report: {found.report}", "")
        typer.echo(found.text)
    found.check()


def _print_step(step: Step) -> None:
    options.say(f"{step.stage:<10}{step.elapsed_ns / 1e9:>7.1f} s  {step.note}", err=True)
