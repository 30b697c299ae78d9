"""`tracekit verify-placement`: does the model's prediction hold in a replay?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tracekit.errors import BudgetError


def verify_placement(  # noqa: PLR0913 - a command's parameters are its options
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
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="Real devices or files: PATH for the base and nvm=PATH for NVM. Can be repeated.",
            show_default="none: both are emulated",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="auto, io_uring, threads or emulated.",
            show_default="emulated; auto with a --target",
        ),
    ] = None,
    write_to: Annotated[
        list[str] | None,
        typer.Option(help="Confirm that this existing target may be written, as for replay."),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(help="Replay the first requests, as many as take this long by the model."),
    ] = 10.0,
    repeats: Annotated[int, typer.Option(help="How often each is replayed, in turn.")] = 3,
    tolerance: Annotated[
        float, typer.Option(help="How far the gain may be off, as a share of the base's time.")
    ] = 0.05,
    profiles: Annotated[
        Path | None,
        typer.Option(help="TOML file of own device profiles, as given to recommend."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Replay base and recommended placement, and say whether the model's prediction held."""
    from tracekit.commands.provenance import keep_asked
    from tracekit.progress import step_progress
    from tracekit.replay.verify import RESULT, VerifyOptions, verify
    from tracekit.store import TraceFolder

    options = VerifyOptions(
        placement=placement,
        seconds=seconds,
        repeats=repeats,
        tolerance_ratio=tolerance,
        targets=tuple(target or ()),
        engine=engine or ("auto" if target else "emulated"),
        write_to=tuple(write_to or ()),
        profiles=profiles,
    )
    with step_progress("replay") as on_run:
        result = verify(TraceFolder(trace), options, on_run=on_run)
    keep_asked(TraceFolder(trace), result, context=context, place=RESULT)
    typer.echo(json.dumps(result, indent=2) if as_json else "\n".join(result["headline"]))
    if not result["is_held"]:
        raise BudgetError("the model's prediction did not hold")


# As on the command line.
verify_placement.__name__ = "verify-placement"
