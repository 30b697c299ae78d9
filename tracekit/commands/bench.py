"""`tracekit bench`: a work profile run on a file or disk, a personality in a directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.errors import PartialError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tracekit.pipeline import Result
    from tracekit.sweep.grid import Axis, Run, Timing
    from tracekit.sweep.run import Swept

OF_PROFILES = ("requests", "target_size", "speed", "pace", "depth", "engine", "device", "write_to")
OF_PERSONALITIES = ("threads", "files", "settings", "warm_up", "cache")


def bench(
    context: typer.Context,
    definition: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A shipped profile (web-server, paging, log-structured), a shipped personality"
            " (fileserver, webserver, webproxy, varmail, zip, unzip, ffsb), or a TOML file.",
        ),
    ],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="New trace folder with all that comes of it.")
    ],
    target: Annotated[
        Path | None,
        typer.Option(
            help="File or block device; what does not exist is made, filled, and then removed."
            " Of a personality: directory.",
            show_default="a file beside the trace folder",
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(help="So much of the profile's time.", show_default="60s without --requests"),
    ] = None,
    requests: Annotated[int | None, typer.Option(help="Most requests.")] = None,
    seed: Annotated[int, typer.Option(help="Another one gives other requests.")] = 0,
    target_size: Annotated[
        str | None,
        typer.Option(help="Size of the target, in place of the profile's.", metavar="SIZE"),
    ] = None,
    speed: Annotated[
        str, typer.Option(help="Divide the profile's times by this, such as 2 or 0.5.")
    ] = "1",
    pace: Annotated[
        str | None,
        typer.Option(
            help="open: each request at its time; fast: always --depth of them under way.",
            show_default="as the profile says",
        ),
    ] = None,
    depth: Annotated[
        int | None, typer.Option(help="Most requests under way.", show_default="the profile's")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="auto, io_uring, threads, dax, emulated (service times of --device), or null."
        ),
    ] = "auto",
    device: Annotated[
        str | None, typer.Option(help="Device profile to emulate.", metavar="PROFILE")
    ] = None,
    repeat: Annotated[
        int, typer.Option(help="Run so often; compare tells the spread of latest.1, latest.2, ...")
    ] = 1,
    write_to: Annotated[
        list[str] | None,
        typer.Option(help="Confirm that this target, which exists, may be written; see replay."),
    ] = None,
    threads: Annotated[
        str, typer.Option(help="Of a personality: threads.", show_default="50")
    ] = "",
    files: Annotated[
        str, typer.Option(help="Of a personality: files.", show_default="as it says")
    ] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Of a personality: any parameter.", metavar="KEY=VALUE"),
    ] = None,
    warm_up: Annotated[
        str, typer.Option(help="Of a personality: time before it is measured.")
    ] = "0s",
    cache: Annotated[
        str, typer.Option(help="Of a personality, before the run: keep, sync, or cold caches.")
    ] = "sync",
    keep: Annotated[bool, typer.Option("--keep", help="Keep a target made for the run.")] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Analyze the run and write report.html.")
    ] = True,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace the trace folder. Of a personality: run again what is there; runs of"
            " other settings stay.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run a work profile on a target by the replayer; its report has times and throughput."""
    from tracekit.commands.provenance import words
    from tracekit.pipeline import BenchOptions, finish_sweep
    from tracekit.pipeline import bench as run
    from tracekit.progress import row_progress
    from tracekit.sweep.grid import asked_axes, asked_timing
    from tracekit.sweep.run import sweep
    from tracekit.sweep.summary import show
    from tracekit.workload.generate import asked_extent, asked_profile
    from tracekit.workload.personality import is_personality

    if is_personality(definition):
        _refuse(context, ("keep", *OF_PROFILES), f"{definition} is a personality")
        given = asked_axes({"threads": threads, "files": files}, settings or (), option="--set")
        timing = asked_timing(duration or "60s", warm_up, cache=cache, seed=seed)
        planned = _planned(definition, target, given=given, timing=timing, repeats=repeat)
        swept = sweep(output, planned, again=force, tell=show)
        finish_sweep(swept, ["bench", definition, *words(context)], with_report=report)
        _tell_swept(swept, as_json=as_json)
        return
    _refuse(context, OF_PERSONALITIES, f"{definition} is no personality")
    extent = asked_extent(requests, duration, seed=seed, default="60s")
    profile = asked_profile(definition, target_size)
    options = BenchOptions(
        target=target,
        engine=engine,
        device=device,
        speed=speed,
        pace=pace,
        depth=depth,
        repeat=repeat,
        write_to=tuple(write_to or ()),
        keep=keep,
        overwrite=force,
        with_report=report,
    )
    with row_progress("generate") as on_rows:
        result = run(profile, output, extent=extent, options=options, on_rows=on_rows)
    _tell(result, as_json=as_json)


def _tell_swept(swept: Swept, *, as_json: bool) -> None:
    from tracekit.sweep.summary import check_complete, tell

    typer.echo(tell(swept, as_json=as_json))
    check_complete(swept)


def _planned(
    definition: str,
    target: Path | None,
    *,
    given: Mapping[str, Axis],
    timing: Timing,
    repeats: int,
) -> list[Run]:
    """Return the repeats of one point: a personality with the parameters that are given."""
    from tracekit.sweep.grid import plan_runs, split_targets

    if target is None:
        raise UsageError(f"{definition} needs --target, the directory to run in")
    return plan_runs(
        [definition],
        split_targets([str(target)]),
        vary=given,
        timing=timing,
        repeats=repeats,
    )


def _refuse(context: typer.Context, options: tuple[str, ...], why: str) -> None:
    """Raise UsageError for an option that was given and has no meaning."""
    for name in options:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "set" if name == "settings" else name.replace("_", "-")
            raise UsageError(f"--{option} has no meaning here: {why}")


def _tell(result: Result, *, as_json: bool) -> None:
    from tracekit.replay.words import describe

    if as_json:
        told: dict[str, Any] = {
            "trace": str(result.folder.path),
            "report": None if result.report is None else str(result.report),
            "profile": result.folder.content["profile"],
            "replays": result.summaries,
        }
        typer.echo(json.dumps(told, indent=2))
    else:
        for summary in result.summaries:
            typer.echo(describe(summary))
        typer.echo(f"\n{result.report or result.folder.path}")
    if result.is_partial:
        raise PartialError(
            f"the run is not complete; what was done is in {result.folder.path / 'replays'}"
        )
