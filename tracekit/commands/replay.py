"""`tracekit replay`: run a trace on a real target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from tracekit.errors import BudgetError, PartialError, TracekitError, UsageError

OF_FILES = ("--files", "--pace", "--speed", "--limit", "--cache", "--name", "--force", "--keep")
TARGET_HELP = (
    "Where requests go: PATH; ROLE=PATH for those of one role; DEVICE=PATH, or"
    " DEVICE@FIRST+SECTORS=PATH, for those that begin on a traced device or in a part of it. A file"
    " that does not exist is made for the run and removed afterwards. Can be repeated."
)
WRITE_HELP = (
    "Confirm that this existing target may be written: the absolute path of a file, or what"
    " --dry-run shows for a device. Without it its writes are skipped. Can be repeated."
)


def replay(  # noqa: PLR0913 - a command's parameters are its options
    context: typer.Context,
    trace: Annotated[Path, typer.Argument(help="Trace folder, as parse made it.")],
    *,
    target: Annotated[
        list[str] | None,
        typer.Option(help=TARGET_HELP, show_default="a file beside the results"),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="auto, io_uring, threads, dax (loads and stores on a mapping), emulated (service"
            " times of --device), or null which does no I/O."
        ),
    ] = "auto",
    device: Annotated[
        list[str] | None,
        typer.Option(
            help="Device profile to emulate: PROFILE, or ROLE=PROFILE for one role. Without a"
            " --target only time passes, no data moves. Can be repeated.",
        ),
    ] = None,
    profiles: Annotated[
        Path | None,
        typer.Option(help="TOML file of own device profiles.", metavar="FILE"),
    ] = None,
    pace: Annotated[
        str,
        typer.Option(
            help="trace: each request at its time; closed: each so long after a completion as in"
            " the trace, so that a faster target shortens the run; fast: as fast as possible."
        ),
    ] = "trace",
    speed: Annotated[
        str, typer.Option(help="Divide the trace's times by this, such as 2, 0.5 or 3/2.")
    ] = "1",
    late: Annotated[
        str,
        typer.Option(
            help="What is late: catch-up (issue it, keep the times that follow), slip (move the"
            " times that follow) or drop."
        ),
    ] = "catch-up",
    late_limit: Annotated[
        str | None,
        typer.Option(help="From when on a request slips or is dropped.", show_default="1ms"),
    ] = None,
    max_idle: Annotated[
        str | None,
        typer.Option(help="Cut longer gaps between requests to this.", show_default="never"),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(help="Leave out the requests before this time of the trace, such as 10s."),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(help="Leave out the requests from this time of the trace on."),
    ] = None,
    files: Annotated[
        Path | None,
        typer.Option(
            help="Replay the file operations of a `capture --files` in this directory instead. Goes"
            " with --pace, --speed, --limit, --cache, --name, --force and --keep.",
            metavar="DIRECTORY",
        ),
    ] = None,
    cache: Annotated[
        str,
        typer.Option(
            help="With --files: keep what making the files leaves in memory, sync (write it back)"
            " or cold (and drop the caches)."
        ),
    ] = "sync",
    placement: Annotated[
        str | None,
        typer.Option(
            help="Place blocks as recommend says: `answer` for its headline, or a capacity. What is"
            " on NVM goes to the target or device `nvm`.",
            metavar="answer|SIZE",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            help="Go on where the interrupted or killed replay of this name ended.", metavar="NAME"
        ),
    ] = None,
    budget: Annotated[
        list[str] | None,
        typer.Option(
            help="Exit with code 4 if the run was less punctual than MEASURE=TIME: p50, p90, p99,"
            " p99.9, max or mean of the issue error, duration or drift. Can be repeated."
        ),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option(help="Most requests in flight.", show_default="4096; 32 with --pace fast"),
    ] = None,
    threads: Annotated[int, typer.Option(help="Workers of the threads engine.")] = 32,
    sqpoll: Annotated[
        str | None,
        typer.Option(
            help="io_uring: a thread of the kernel submits, so that nothing is a call: on, or with"
            " its processor and the time without work after which it sleeps.",
            metavar="on|cpu=N,idle=TIME",
        ),
    ] = None,
    iopoll: Annotated[
        bool,
        typer.Option(
            "--iopoll",
            help="io_uring: look for completions in the queues of a device that has some for it,"
            " without interrupts.",
        ),
    ] = False,
    priority: Annotated[
        list[str] | None,
        typer.Option(
            help="I/O priority of reads and writes: rt, be or idle, with a level such as be:7, or"
            " ROLE=CLASS for one role. Can be repeated.",
            metavar="[ROLE=]CLASS",
        ),
    ] = None,
    level: Annotated[
        str, typer.Option(help="queued: what was asked for; issued: what the device got.")
    ] = "queued",
    limit: Annotated[
        int | None, typer.Option(help="Replay only so many requests.", show_default="all")
    ] = None,
    direct: Annotated[str, typer.Option(help="O_DIRECT: auto, on or off.")] = "auto",
    write_to: Annotated[list[str] | None, typer.Option(help=WRITE_HELP)] = None,
    overwrite_signature: Annotated[
        list[str] | None,
        typer.Option(help="Allow a target that holds this, such as ext or swap, to be destroyed."),
    ] = None,
    out_of_range: Annotated[
        str,
        typer.Option(
            help="Requests beyond the target's end: refuse, wrap, fold, scale, clip or skip."
        ),
    ] = "refuse",
    overlaps: Annotated[
        str,
        typer.Option(
            help="Requests that share sectors with one in flight, one of them a write: allow, order"
            " or drop. They are always counted."
        ),
    ] = "allow",
    expand: Annotated[
        bool,
        typer.Option(help="Widen requests to whole sectors of a target that has larger ones."),
    ] = False,
    repeat: Annotated[
        int,
        typer.Option(help="Replay so often, as NAME.1, NAME.2, ...; compare tells their spread."),
    ] = 1,
    name: Annotated[
        str, typer.Option(help="Name of the results in the trace folder; latest is replaced.")
    ] = "latest",
    force: Annotated[
        bool, typer.Option(help="Replace results of this name, and kept --files.")
    ] = False,
    keep: Annotated[bool, typer.Option(help="Keep target files made for the run.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check plan and targets; no request is made.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Replay the trace on files, block or DAX devices, at its own times or as fast as possible."""
    from tracekit.commands.provenance import words
    from tracekit.replay.files import FileReplayOptions
    from tracekit.replay.player import PlayerOptions
    from tracekit.replay.run import ReplayOptions, repeats
    from tracekit.replay.schedule import Schedule

    asked = tuple(words(context))
    if files is not None:
        _refuse_others(asked)
        chosen = FileReplayOptions(
            directory=files,
            name=name,
            pace=pace,
            speed=speed,
            cache=cache,
            limit=limit,
            keeps_files=keep,
            overwrite=force,
            asked=asked,
        )
        _run_files(trace, chosen, as_json=as_json)
        return
    _refuse_cache(asked)
    player = PlayerOptions(
        engine=engine,
        schedule=Schedule(pace, late, late_limit, max_idle, start, end),
        speed=speed,
        depth=depth,
        threads=threads,
        direct=direct,
        out_of_range=out_of_range,
        overlaps=overlaps,
        sqpoll=sqpoll,
        iopoll=iopoll,
        expand=expand,
        keep=keep,
        target=tuple(target or ()),
        priority=tuple(priority or ()),
        write_to=tuple(write_to or ()),
        overwrite_signature=tuple(overwrite_signature or ()),
    )
    options = ReplayOptions(
        name=name,
        level=level,
        limit=limit,
        player=player,
        budget=tuple(budget or ()),
        resume=resume,
        placement=placement,
        asked=asked,
        devices=tuple(device or ()),
        profiles=profiles,
        is_dry_run=dry_run,
        overwrite=force,
    )
    _run_all(trace, repeats(options, repeat), as_json=as_json)


def _run_all(trace: Path, runs: list[Any], *, as_json: bool) -> None:
    ends = [end for one in runs if (end := _run(trace, one, as_json=as_json)) is not None]
    if ends:
        raise ends[0]


def _run(trace: Path, options: Any, *, as_json: bool) -> TracekitError | None:
    """Replay once; return what was not done or not in time, which ends no other repeat."""
    from tracekit.progress import row_progress
    from tracekit.replay.run import replay as run_replay
    from tracekit.replay.schedule import missed
    from tracekit.replay.words import describe
    from tracekit.store import TraceFolder

    folder = TraceFolder(trace)
    with row_progress("plan") as on_rows:
        summary, is_partial = run_replay(folder, options, on_rows=on_rows)
    typer.echo(json.dumps(summary, indent=2) if as_json else describe(summary))
    if is_partial:
        place = folder.path / "replays" / options.name
        partial = PartialError(
            f"the replay is not complete: {summary['outcome']}, {summary['counts']['failed']:,}"
            f" requests failed; what was done is in {place}"
        )
        if summary["outcome"] == "interrupted":
            raise partial  # who ends one repeat wants no other
        return partial
    over = missed(summary.get("budget", ()))
    return BudgetError(f"{options.name} missed its timing budget: {over}") if over else None


def _refuse_others(asked: tuple[str, ...]) -> None:
    """Raise UsageError for an option that file operations do not have."""
    wrong = [word for word in asked if word.startswith("--") and word not in (*OF_FILES, "--json")]
    if wrong:
        raise UsageError(
            f"{wrong[0]} is not for file operations",
            hint=f"--files goes with {', '.join(OF_FILES)}",
        )


def _refuse_cache(asked: tuple[str, ...]) -> None:
    if "--cache" in asked:
        raise UsageError("--cache belongs to --files", hint="leave it away")


def _run_files(trace: Path, options: Any, *, as_json: bool) -> None:
    from tracekit.replay.files import describe, replay_files
    from tracekit.store import TraceFolder

    folder = TraceFolder(trace)
    summary, is_partial = replay_files(folder, options)
    typer.echo(json.dumps(summary, indent=2) if as_json else describe(summary))
    if is_partial:
        place = folder.path / "replays" / options.name
        is_whole = summary["outcome"] == "finished"
        raise PartialError(
            ("" if is_whole else f"the replay is not complete: {summary['outcome']}, ")
            + f"{summary['counts']['failed']:,} operations did not end as in the trace;"
            f" what was done is in {place}"
        )
