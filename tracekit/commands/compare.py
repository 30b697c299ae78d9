"""`tracekit compare`: replays of a trace, or traces before and after a change, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tracekit as tk
from tracekit.commands import completion, options
from tracekit.commands.replay import runs_of
from tracekit.errors import UsageError


def compare(
    trace: Annotated[
        Path,
        options.trace_folder("Trace folder, with replays; or one before a change, or its repeats."),
    ],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Replays; a name whose repeats are NAME.1, NAME.2, ...; or `trace` for what was"
            " traced. The others are compared with the first. Or the trace folder after a change;"
            " its repeats are FOLDER.1, FOLDER.2, ...",
            metavar="NAME NAME...",
            autocompletion=completion.replays,
        ),
    ] = None,
    *,
    run: Annotated[list[str] | None, options.RUNS] = None,
    repeat: Annotated[int, typer.Option(help="With --run: how often each runs.", min=1)] = 6,
    gate: Annotated[
        str | None,
        typer.Option(
            help="Measures that must not be worse, such as p99=10%,gain,footprint, each with the"
            " share by which it may differ and still be the same: 5%, of gain 3 points, unless"
            " given. Exit code 4: worse; 5: nobody can tell.",
            metavar="MEASURE[=N%],...",
            show_default="none",
        ),
    ] = None,
    markdown: Annotated[
        bool, typer.Option(help="Print the verdicts as Markdown, for the page of a change.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Compare replays, or traces before and after a change, with their confidence."""
    if markdown and as_json:
        raise UsageError("--markdown and --json are two forms of one answer: choose one")
    chosen = names or ()
    result: tk.Change | tk.Comparison
    if len(chosen) == 1 and not run:
        result = tk.compare(trace, chosen[0], gate=gate)
    else:
        opened, runs = tk.open(trace), runs_of(run or ())
        if markdown and gate is None:
            raise UsageError("--markdown shows what a gate says of replays: name its --gate")
        if gate is not None:
            opened.check_gate(gate)  # before hours of replays
        for made in opened.replays(repeat=repeat, run=runs) if runs else ():
            made.check()
        result = opened.compare(*chosen, *runs, gate=gate)
    if not markdown:
        options.show(result, as_json=as_json)
        return
    typer.echo(result.markdown)
    options.say(*(f"warning: {one}" for one in result.warnings), err=True)
    result.check()
