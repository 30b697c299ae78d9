"""Options that several commands have, each declared once, and how a command prints an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracekit.choices import Policy, words
from tracekit.errors import UsageError

if TYPE_CHECKING:
    from tracekit.api.results import Result
    from tracekit.api.trace import Trace as Trace_

# Of every command.
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Trace = Annotated[Path, typer.Argument(help="Trace folder.")]
Classified = Annotated[Path, typer.Argument(help="Trace folder, classified.")]
Recommended = Annotated[Path, typer.Argument(help="Trace folder, with a recommendation.")]

# Of those that make a trace folder or a file.
NewTrace = Annotated[
    Path | None, typer.Option("--output", "-o", help="New trace folder. [default: NAME-trace]")
]
ForceTrace = Annotated[bool, typer.Option("--force", help="Replace the trace folder.")]
Layout = Annotated[
    Path | None,
    typer.Option(help="layout.json or an sfdisk dump. [default: layout.json beside the input]"),
]

# Of the models.
Capacity = Annotated[
    str,
    typer.Option(
        metavar="SIZES",
        help="NVM capacities to answer for, such as 64MiB or 16M,1.5GiB; the first is the"
        " headline. Default: a tenth of what the trace touched.",
    ),
]
Base = Annotated[str, typer.Option(help="Device profile that holds what is not on NVM.")]
Nvm = Annotated[str, typer.Option(help="Device profile of the NVM.")]
Profiles = Annotated[
    Path | None, typer.Option(help="TOML file of own device profiles.", metavar="FILE")
]
WhatIf = Annotated[
    Path | None, typer.Option(help="TOML file of devices and prices to ask about.", metavar="FILE")
]
Placement = Annotated[
    str,
    typer.Option(
        help="`answer` for the recommendation's headline, or a capacity.", metavar="answer|SIZE"
    ),
]

# Of those that run something.
Confirm = Annotated[
    list[str] | None,
    typer.Option(
        help="Confirm that this existing target may be written: the absolute path of a file, or"
        " what a run without it shows for a device. Without it writes are skipped. Can be"
        " repeated."
    ),
]
OverwriteSignature = Annotated[
    list[str] | None,
    typer.Option(help="Allow a target that holds this, such as ext or swap, to be destroyed."),
]
Seed = Annotated[int, typer.Option(help="Another one gives other random numbers.")]
TargetSize = Annotated[
    str | None, typer.Option(help="Size of the target, in place of the profile's.", metavar="SIZE")
]

# Of the virtual machine.
GuestMemory = Annotated[str, typer.Option(help="Memory of the guest, at least 256MiB.")]
Cpus = Annotated[int, typer.Option(help="Processors of the guest.", min=1, max=64)]
GuestLimit = Annotated[
    str, typer.Option(help="Memory of the command with its page cache; 0: all there is.")
]
Share = Annotated[
    Path | None, typer.Option(help="Folder of which the command finds a copy in $LAB_SHARE.")
]
Packages = Annotated[
    list[str] | None,
    typer.Option(help="Package that the guest has, built in if new. Can be repeated."),
]
Prepare = Annotated[
    str, typer.Option(help="Shell text to run before; then the disks are mounted anew.")
]
Mount = Annotated[str, typer.Option(help="Mount options of fs, such as data=journal.")]
Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Count the guest's time in instructions: emulated latencies are exact whatever else"
        " this machine does.",
    ),
]
Timeout = Annotated[int, typer.Option(help="Most seconds of the guest for the command.", min=1)]
DISK_HELP = (
    "Part of a disk: fs (mounted on $LAB_FS), journal (of fs), swap. With a latency it is emulated"
    " in memory (LATENCY:DEPTH: so many requests at once). Can be repeated."
)
GuestCommand = Annotated[list[str], typer.Argument(help="Command to run in the guest, after `--`.")]


def several(choice: Any) -> tuple[Callable[[str], str], Callable[[str], list[str]]]:
    """Return what checks and what completes a list of words with commas between them."""
    known = words(choice)

    def checked(text: str) -> str:
        wrong = [word for part in text.split(",") if (word := part.strip()) and word not in known]
        if wrong:
            raise typer.BadParameter(f"'{wrong[0]}' is not one of {', '.join(known)}.")
        return text

    def completed(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        return [f"{before}{comma}{word}" for word in known if word.startswith(begun)]

    return checked, completed


_checked, _completed = several(Policy)
Policies = Annotated[
    str,
    typer.Option(
        parser=_checked,
        autocompletion=_completed,
        metavar=",".join(words(Policy)),
        help="Policies to compare, with commas between them. Default: all.",
    ),
]

SHOWS_ONLY = "as_json"  # changes what is printed, not what is found


def given(context: typer.Context) -> dict[str, Any]:
    """Return the options that were given, by name: what was not has the default of the API."""
    found = {}
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        is_given = source is not None and source.name == "COMMANDLINE"
        if is_given and parameter.param_type_name == "option" and parameter.name != SHOWS_ONLY:
            found[str(parameter.name)] = context.params[str(parameter.name)]
    return found


def refuse(context: typer.Context, options: tuple[str, ...], why: str) -> None:
    """Raise UsageError for an option that was given and has no meaning."""
    for parameter in context.command.params:
        if parameter.name in options and parameter.name in given(context):
            raise UsageError(f"{parameter.opts[0]} has no meaning here: {why}")


def default_output(inputs: list[Path]) -> Path:
    """Return a folder name in the working folder, made from the first input's name."""
    from tracekit.api.start import default_output as name_for

    return name_for(inputs)


def run_output(inputs: list[Path]) -> Path | None:
    """Return the same, None for a trace folder, in which its results stay."""
    is_trace = any((path / "trace.json").is_file() for path in inputs)
    return None if is_trace else default_output(inputs)


def warn(trace: Trace_) -> None:
    """Print what to doubt about a trace that was made, with advice."""
    for doubt in trace.info.warnings:
        typer.echo(f"warning: {doubt.message}\n  {doubt.advice}", err=True)


def show(result: Result, *, as_json: bool) -> None:
    """Print an answer to stdout, what is missing or doubtful to stderr; raise if it failed."""
    typer.echo(json.dumps(result.summary, indent=2) if as_json else result.text)
    for note in result.notes:
        typer.echo(note, err=True)
    for warning in result.warnings:
        # Of a replay they stand in its text.
        if f"warning: {warning}" not in result.headline:
            typer.echo(f"warning: {warning}", err=True)
    result.check()
