"""`tracekit replay`: run a trace on a real target."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

import tracekit as tk
from tracekit.choices import (
    CacheState,
    Direct,
    Engine,
    LatePolicy,
    Level,
    OutOfRange,
    Overlaps,
    Pace,
)
from tracekit.commands import options
from tracekit.errors import TracekitError, UsageError

OF_FILES = ("files", "pace", "speed", "limit", "cache", "name", "force", "keep")
TARGET_HELP = (
    "Where requests go: PATH; ROLE=PATH for those of one role; DEVICE=PATH, or"
    " DEVICE@FIRST+SECTORS=PATH, for those that begin on a traced device or in a part of it. A file"
    " that does not exist is made for the run and removed afterwards. Can be repeated."
)


def replay(
    context: typer.Context,
    trace: Annotated[Path, typer.Argument(help="Trace folder, as parse made it.")],
    *,
    target: Annotated[
        list[str] | None,
        typer.Option(help=TARGET_HELP, show_default="a file beside the results"),
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option(
            help="dax: loads and stores on a mapping; emulated: service times of --device; null: no"
            " I/O."
        ),
    ] = "auto",
    device: Annotated[
        list[str] | None,
        typer.Option(
            help="Device profile to emulate: PROFILE, or ROLE=PROFILE for one role. Without a"
            " --target only time passes, no data moves. Can be repeated.",
        ),
    ] = None,
    profiles: options.Profiles = None,
    pace: Annotated[
        Pace,
        typer.Option(
            help="trace: each request at its time; closed: each so long after a completion as in"
            " the trace, so that a faster target shortens the run; fast: as fast as possible."
        ),
    ] = "trace",
    speed: Annotated[
        str, typer.Option(help="Divide the trace's times by this, such as 2, 0.5 or 3/2.")
    ] = "1",
    late: Annotated[
        LatePolicy,
        typer.Option(
            help="What is late: issue it and keep the times that follow, move these (slip), or drop"
            " it."
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
        CacheState,
        typer.Option(
            help="With --files: keep what making the files leaves in memory, write it back (sync),"
            " or also drop the caches (cold)."
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
        Level, typer.Option(help="queued: what was asked for; issued: what the device got.")
    ] = "queued",
    limit: Annotated[
        int | None, typer.Option(help="Replay only so many requests.", show_default="all")
    ] = None,
    direct: Annotated[Direct, typer.Option(help="Whether to use O_DIRECT.")] = "auto",
    write_to: options.Confirm = None,
    overwrite_signature: options.OverwriteSignature = None,
    out_of_range: Annotated[
        OutOfRange, typer.Option(help="What to do with requests beyond the target's end.")
    ] = "refuse",
    overlaps: Annotated[
        Overlaps,
        typer.Option(
            help="What to do with requests that share sectors with one in flight, one of them a"
            " write. They are always counted."
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
    as_json: options.Json = False,
) -> None:
    """Replay the trace on files, block or DAX devices, at its own times or as fast as possible."""
    chosen = options.given(context)
    opened = tk.open(trace)
    if files is not None:
        _refuse_others(chosen)
        found = iter([opened.replay_files(**chosen)])
    elif "cache" in chosen:
        raise UsageError("--cache belongs to --files", hint="leave it away")
    elif repeat == 1:
        chosen.pop("repeat", None)
        found = iter([opened.replay(**chosen)])
    else:
        found = opened.replays(**chosen)
    _show_all(found, as_json=as_json)


def _refuse_others(chosen: dict[str, Any]) -> None:
    """Raise UsageError for an option that file operations do not have."""
    wrong = [name for name in chosen if name not in OF_FILES]
    if wrong:
        known = ", ".join(f"--{name}" for name in OF_FILES)
        raise UsageError(
            f"--{wrong[0].replace('_', '-')} is not for file operations",
            hint=f"--files goes with {known}",
        )


def _show_all(runs: Iterator[tk.Replay], *, as_json: bool) -> None:
    """Print each run when it has ended; raise the first failure then: it ends no other repeat."""
    failures = []
    for one in runs:
        try:
            options.show(one, as_json=as_json)
        except TracekitError as failure:
            if one.summary["outcome"] == "interrupted":
                raise  # who ends one repeat wants no other
            failures.append(failure)
    if failures:
        raise failures[0]
