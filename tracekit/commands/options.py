"""Options that several commands have, each declared once, and how a command prints an answer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import typer

from tracekit.choices import Policy, words
from tracekit.commands import completion
from tracekit.errors import UsageError
from tracekit.escapes import escape, joined

if TYPE_CHECKING:
    from tracekit.api.results import Result
    from tracekit.api.set_results import SetRun
    from tracekit.api.sets import Set
    from tracekit.api.trace import Trace as Trace_

Command = Callable[..., None]

# Of every command.
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def trace_folder(text: str) -> Any:
    """Return the help of an argument that is a trace folder."""
    return typer.Argument(help=text, autocompletion=completion.traces)


Trace = Annotated[Path, trace_folder("Trace folder.")]
Classified = Annotated[Path, trace_folder("Trace folder, classified.")]
TraceOrSet = Annotated[Path, trace_folder("Trace folder, or a trace set.")]
ClassifiedOrSet = Annotated[Path, trace_folder("Trace folder or trace set, classified.")]
Recommended = Annotated[Path, trace_folder("Trace folder, with a recommendation.")]
TraceSet = Annotated[
    Path,
    typer.Argument(
        help="Folder or URL of the trace set.", metavar="SET", autocompletion=completion.traces
    ),
]

# Of those that make a trace folder or a file.
NEW_TRACE = "New trace folder. [default: NAME-trace]"
FORCE_TRACE = "Replace the trace folder."
LAYOUT = "layout.json or an sfdisk dump. [default: layout.json beside the input]"


def option(text: str, *names: str, **more: Any) -> Any:
    """Return the help of an option with what else it has, such as a metavar or a least value."""
    return typer.Option(*names, help=text, **more)


# Of stages that take a trace set.
SET_ENGINE = option("Where the volumes of a set are worked on: in two processes, or by Spark.")
MASTER = option(
    "Spark's master: local[N], spark://HOST:PORT, yarn or k8s://URL. [default: that of"
    " spark-submit, or local[2]]",
    metavar="URL",
)

# Of the models.
CAPACITY = option(
    "NVM capacities to answer for, such as 64MiB or 16M,1.5GiB; the first is the headline. Default:"
    " a tenth of what the trace touched.",
    metavar="SIZES",
)
BASE = option(
    "Device profile of the slow (base) device; trace: the traced disk, fitted from its service"
    " times, or hdd-7200 where the trace has none.",
    autocompletion=completion.base_devices,
)
NVM = option("Device profile of the NVM.", autocompletion=completion.device_profiles)
PROFILES = option("TOML file of your own device profiles.", metavar="FILE")
WHAT_IF = option("TOML file of devices and prices to ask about.", metavar="FILE")
PLACEMENT = option(
    "`answer` for the recommendation's headline, or a capacity.",
    metavar="answer|SIZE",
    autocompletion=completion.of("answer"),
)
PLACEMENT_OR_BEST = option(
    "`answer` for the recommendation's headline, by roles or else by extents, `units` for those"
    " of --unit, `best` for the best placement of single blocks, or a capacity.",
    metavar="answer|units|best|SIZE",
    autocompletion=completion.of("answer", "units", "best"),
)

# Of those that run something.
USER = option(
    "User that the command runs as, by name or number, when root starts it.",
    show_default="who used sudo",
    metavar="USER",
)
CONFIRM = (
    "Allow writes to this existing target: the absolute path of a file, or the name that a run"
    " without this option prints for a device. Without it, writes are skipped. Can be repeated."
)
OVERWRITE_SIGNATURE = "Allow a target with this signature, such as ext or swap, to be overwritten."
SEED = "Random seed."
TARGET_SIZE = option("Size of the target, instead of the profile's.", metavar="SIZE")

RUNS = option(
    "Options of `replay` for each of two or more names, such as 'ssd: --target /dev/sdb'. They take"
    " turns, in the order ABBA BAAB, as NAME.1, NAME.2, ... of each. Can be repeated.",
    metavar="'NAME: OPTIONS'",
)

# Of the virtual machine.
GUEST = {
    "memory": "Memory of the guest, at least 256MiB.",
    "cpus": option("Processors of the guest.", min=1, max=64),
    "limit": "Memory limit of the command, page cache included; 0: none.",
    "share": "Folder to copy into the guest, as $LAB_SHARE.",
    "package": "Package to have in the guest, built in if new. Can be repeated.",
    "prepare": "Shell commands to run first; then the disks are mounted anew.",
    "mount": "Mount options of fs, such as data=journal.",
    "exact": "Count the guest's time in instructions: times are the same whatever else this machine"
    " does. A request takes some 30 us more than its disk's latency.",
    "timeout": option("Time limit of the command, in seconds of the guest.", min=1),
}
DISK = option(
    "Part of a disk: fs (mounted on $LAB_FS), journal (of fs), swap. With a latency it is emulated"
    " in memory (LATENCY:DEPTH: so many requests at once). Can be repeated.",
    metavar="ROLE=SIZE[:LATENCY]",
)
GuestCommand = Annotated[list[str], typer.Argument(help="Command to run in the guest, after `--`.")]


def _policies(text: str) -> str:
    known = words(Policy)
    wrong = [word for part in text.split(",") if (word := part.strip()) and word not in known]
    if wrong:
        raise typer.BadParameter(f"'{wrong[0]}' is not one of {', '.join(known)}.")
    return text


POLICIES = option(
    "Policies to compare, with commas between them. Default: all.",
    parser=_policies,
    autocompletion=completion.of(*words(Policy)),
    metavar=",".join(words(Policy)),
)


def of(*calls: Callable[..., Any], **helps: Any) -> Callable[[Command], Command]:
    """Give a command the options of calls of the API, in the order of their help.

    Name, type and default are those of the first call that has the option. A help is a text or an
    `option`; None stands for an option that the command declares itself. The command gets by name
    what was given: what was not has the default of the API.
    """
    taken = {name: one for call in reversed(calls) for name, one in _parameters(call).items()}

    def declare(command: Command) -> Command:
        own = dict(signature(command, eval_str=True).parameters)
        own.popitem()  # the options that were given
        parameters = [
            *(one for one in own.values() if one.kind is not Parameter.KEYWORD_ONLY),
            *(
                own[name] if text is None else _declared(taken[name], text)
                for name, text in helps.items()
            ),
            *(
                one
                for name, one in own.items()
                if one.kind is Parameter.KEYWORD_ONLY and name not in helps
            ),
        ]
        if "context" not in own:
            kind = Parameter.POSITIONAL_OR_KEYWORD
            parameters.insert(0, Parameter("context", kind, annotation=typer.Context))

        @wraps(command)
        def run(context: typer.Context, **values: Any) -> None:
            values["context"] = context
            chosen = {name: value for name, value in given(context).items() if name not in own}
            command(**{name: values[name] for name in own}, **chosen)

        run.__annotations__ = {one.name: one.annotation for one in parameters}
        vars(run)["__signature__"] = Signature(parameters)
        return run

    return declare


def _parameters(call: Callable[..., Any]) -> dict[str, Parameter]:
    hints = get_type_hints(call)
    return {
        name: one.replace(annotation=hints.get(name))
        for name, one in signature(call).parameters.items()
    }


def _declared(parameter: Parameter, text: Any) -> Parameter:
    """Return an option of the command line for a parameter of the API."""
    name, default = parameter.name, parameter.default
    shown = copy(text) if not isinstance(text, str) else typer.Option(help=text)
    if shown.default is ...:
        flag = f"--{name.replace('_', '-')}"
        names = {"output": ("--output", "-o"), "settings": ("--set",), "recorded": ("--from",)}
        shown.param_decls = names.get(name, (flag,) if default is False else None)
    kind = _kind(parameter.annotation, default)
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, shown]
    )


def _kind(hint: Any, default: Any) -> Any:
    """Return the type that the command line has for one of the API: texts stand for most."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if os.PathLike[str] in kinds:
        kind: Any = Path
    elif Sequence[str] in kinds and not isinstance(default, str):
        kind = list[str]
    else:
        kind = str if str in kinds else kinds[0]
    return kind | None if NoneType in kinds else kind


def given(context: typer.Context) -> dict[str, Any]:
    """Return the options that were given, by name."""
    found = {}
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source and source.name == "COMMANDLINE" and parameter.param_type_name == "option":
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


def opened(path: Path, chosen: Mapping[str, Any]) -> Trace_ | Set:
    """Open a trace folder, or a trace set, of which a command takes each volume.

    UsageError for a trace where an option was given that is for sets.
    """
    import tracekit as tk
    from tracekit.objects.location import Location
    from tracekit.store import SET_NAME

    location = Location.of(path)
    if (location / SET_NAME).exists() if location else (path / SET_NAME).is_file():
        return tk.open_set(path)
    opened = tk.open(path)
    if of_a_set := [name for name in ("engine", "master") if name in chosen]:
        raise UsageError(f"--{of_a_set[0]} goes with a trace set, and {path} is one trace")
    return opened


def shown_path(path: Path) -> str:
    """Return a path, or the URL of which a path was made, as it was typed."""
    from tracekit.objects.location import Location

    return str(Location.of(path) or path)


def shown_names(names: list[str] | None) -> list[str]:
    """Return the names to show, none for a list; `show NAME` and `list` say the same in words."""
    found = names or []
    return found[1:] if found[:1] in (["list"], ["show"]) else found


def run_output(inputs: list[Path]) -> Path | None:
    """Return the same, None for a trace folder, in which its results stay."""
    is_trace = any((path / "trace.json").is_file() for path in inputs)
    return None if is_trace else default_output(inputs)


def warn(trace: Trace_) -> None:
    """Print what to doubt about a trace that was made, with advice."""
    for doubt in trace.info.warnings:
        say(f"warning: {doubt.message}", f"  {doubt.advice}", err=True)


def say(*lines: str, err: bool = False) -> None:
    """Print lines, each of which stays one line whatever it quotes."""
    if lines:
        typer.echo(joined(lines), err=err)


def say_json(content: Any) -> None:
    """Print an answer to stdout as JSON."""
    typer.echo(json.dumps(content, indent=2))


def show(result: Result | Set | SetRun, *, as_json: bool) -> None:
    """Print an answer to stdout, what is missing or doubtful to stderr; raise if it failed."""
    typer.echo(json.dumps(result.summary, indent=2) if as_json else result.text)
    say(*result.notes, err=True)
    for warning in result.warnings:
        # Of a replay they stand in its text.
        if escape(line := f"warning: {warning}") not in result.headline:
            say(line, err=True)
    result.check()
