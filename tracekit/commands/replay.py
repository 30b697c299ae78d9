"""`tracekit replay`: run a trace on a real target."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.exceptions import TyperException

import tracekit as tk
from tracekit.commands import completion, options
from tracekit.commands.options import option
from tracekit.errors import TracekitError, UsageError

NOT_OF_RUNS = frozenset(("as_json", "cache", "dry_run", "files", "name", "repeat", "resume", "run"))
OF_FILES = (
    *("pace", "speed", "limit", "cache", "no_space_check", "name", "force", "keep", "dry_run"),
)


@options.of(
    tk.Trace.replay,
    tk.Trace.replay_files,
    target=option(
        "Where requests go: PATH; ROLE=PATH for those of one role; DEVICE=PATH, or"
        " DEVICE@FIRST+SECTORS=PATH, for those that begin on a traced device or in a part of it. A"
        " file that does not exist is made for the run and removed afterwards. Can be repeated.",
        show_default="a file beside the results",
    ),
    engine="dax: loads and stores on a mapping; emulated: service times of --device; null: no I/O.",
    device=option(
        "Device profile to emulate: PROFILE, or ROLE=PROFILE for one role. Without a --target only"
        " time passes, no data moves. Can be repeated.",
        autocompletion=completion.device_profiles,
    ),
    profiles=options.PROFILES,
    pace="trace: each request at its time; closed: each as long after a completion as in the"
    " trace, so that a faster target shortens the run; fast: as fast as possible.",
    speed="Divide the trace's times by this, such as 2, 0.5 or 3/2.",
    late="Late requests: issue them and keep the times that follow, move these (slip), or drop"
    " them.",
    late_limit=option("Lateness from which a request slips or is dropped.", show_default="1ms"),
    max_idle=option("Cut longer gaps between requests to this.", show_default="never"),
    start="Leave out the requests before this time of the trace, such as 10s.",
    end="Leave out the requests from this time of the trace.",
    files=None,
    cache="With --files: keep what making the files leaves in memory, write it back (sync), or also"
    " drop the caches (cold).",
    placement=option(
        "Place blocks as recommend says: `answer` for its headline, by roles or else by extents,"
        " `units` for those of --unit, `best` for the best placement of single blocks, or a"
        " capacity. What is on NVM goes to the target or device `nvm`.",
        metavar="answer|units|best|SIZE",
        autocompletion=completion.of("answer", "units", "best"),
    ),
    resume=option(
        "Continue the interrupted or killed replay of this name.",
        metavar="NAME",
        autocompletion=completion.replays,
    ),
    budget="Exit with code 4 if the run was less punctual than MEASURE=TIME: p50, p90, p99, p99.9,"
    " max or mean of the issue error, duration or drift. Can be repeated.",
    certify=option(
        "Write a certificate: pass, fail (exit code 4) or cannot tell (5), with MEASURE=LIMIT: p50,"
        " p90, p99, p99.9, max (times) of the issue error; duration, drift (times or %); errors,"
        " lost, order, merged, split (requests or %). Can be repeated.",
        metavar="LIMIT,...",
    ),
    depth=option("Maximum requests in flight.", show_default="4096; 32 with --pace fast"),
    threads="Workers of the threads engine.",
    submitters="Threads that submit, each with its own engine, for rates that one cannot reach.",
    sqpoll=option(
        "io_uring: a kernel thread submits, without system calls: on, or its processor and the"
        " idle time after which it sleeps.",
        metavar="on|cpu=N,idle=TIME",
    ),
    iopoll="io_uring: poll for completions, without interrupts, on a device with queues for it.",
    priority=option(
        "I/O priority of reads and writes: rt, be or idle, with a level such as be:7, or ROLE=CLASS"
        " for one role. Can be repeated.",
        metavar="[ROLE=]CLASS",
    ),
    level="queued: what was asked for; issued: what the device got.",
    limit=option("Replay only the first N requests.", show_default="all"),
    direct="Whether to use O_DIRECT.",
    write_to=options.CONFIRM,
    overwrite_signature=options.OVERWRITE_SIGNATURE,
    out_of_range="What to do with requests beyond the target's end.",
    overlaps="What to do with requests that share sectors with one in flight, one of them a write."
    " They are always counted.",
    expand=option(
        "Widen requests to whole sectors of a target that has larger ones.",
        "--expand/--no-expand",
    ),
    no_space_check=option(
        "Start even if writes or results exceed the free space or this process's limits: a file"
        " system that compresses may take them.",
        "--no-space-check",
    ),
    observe=option(
        "Record what the kernel queues on the targets' devices, and join it with the requests:"
        " observed.parquet, and the error of the kernel's times. Needs root.",
        "--observe/--no-observe",
    ),
    lead="Submit requests this long before their times, such as 12us, so that the kernel queues"
    " them on time; auto: as long as --observe measures before the run, or measured in a replay of"
    " this trace on these targets; none: at their times.",
    repeat=None,
    name="Name of the results in the trace folder; latest is replaced.",
    force=option("Replace results of this name, and kept --files.", "--force/--no-force"),
    keep=option("Keep target files made for the run.", "--keep/--no-keep"),
    dry_run="Check plan, targets, space and limits; no request and no file is made.",
)
def replay(
    trace: Annotated[Path, options.trace_folder("Trace folder, as parse made it.")],
    *,
    files: Annotated[
        Path | None,
        typer.Option(
            help="Replay the file operations of a `capture --files` in this directory instead. Goes"
            " with --pace, --speed, --limit, --cache, --no-space-check, --name, --force, --keep and"
            " --dry-run.",
            metavar="DIRECTORY",
        ),
    ] = None,
    repeat: Annotated[
        int,
        typer.Option(help="Number of replays, NAME.1, NAME.2, ...; compare shows their spread."),
    ] = 1,
    run: Annotated[list[str] | None, options.RUNS] = None,
    as_json: options.Json = False,
    **chosen: Any,
) -> None:
    """Replay the trace on files, block or DAX devices, at its own times or as fast as possible."""
    opened = tk.open(trace)
    if files is not None:
        more = {"repeat": repeat != 1, "run": run}
        _refuse_others([*chosen, *(name for name, is_given in more.items() if is_given)])
        found = iter([opened.replay_files(files, **chosen)])
    elif "cache" in chosen:
        raise UsageError("--cache belongs to --files", hint="leave it away")
    elif run:
        found = opened.replays(repeat=repeat, run=runs_of(run), **chosen)
    elif repeat == 1:
        found = iter([opened.replay(**chosen)])
    else:
        found = opened.replays(repeat=repeat, **chosen)
    _show_all(found, as_json=as_json)


def runs_of(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the options of `replay` for each name, from texts such as 'ssd: --target /dev/sdb'."""
    own = typer.Typer(add_completion=False, rich_markup_mode=None)
    own.command("replay")(replay)
    command, found = typer.main.get_command(own), dict[str, dict[str, Any]]()
    for text in texts:
        name, colon, words = text.partition(":")
        if not colon or name in found:
            raise UsageError(
                f"--run {text}: not 'NAME: OPTIONS' with a name of its own",
                hint="for example: --run 'ssd: --target /dev/sdb' --run 'nvm: --target /dev/pmem0'",
            )
        try:
            context = command.make_context("replay", ["trace", *shlex.split(words)])
        except (TyperException, ValueError) as error:
            message = error.message if isinstance(error, TyperException) else error
            raise UsageError(f"--run {name}: {message}", hint="options of replay") from None
        found[name] = options.given(cast(typer.Context, context))
        for option_name in NOT_OF_RUNS & found[name].keys():
            raise UsageError(f"--run {name}: --{option_name} is not for runs that take turns")
    return found


def _refuse_others(chosen: list[str]) -> None:
    """Raise UsageError for an option that file operations do not have."""
    wrong = [name for name in chosen if name not in OF_FILES]
    if wrong:
        known = ", ".join(f"--{name.replace('_', '-')}" for name in ("files", *OF_FILES))
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
