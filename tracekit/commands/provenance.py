"""The options that a command was asked with, kept beside its answer: the report tells them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracekit.store import TraceFolder, write_json

SHOWS_ONLY = "as_json"  # changes what is printed, not what is found


def keep_asked(
    folder: TraceFolder, result: dict[str, Any], *, context: Any, place: str = ""
) -> None:
    """Add `asked`, the words of the running command's options, to its answer and its JSON file.

    `context` is the command's typer.Context; the file is `place`, or that of the simulation.
    """
    result["asked"] = list(words(context))
    place = place or f"simulations/{context.command.name}.json"
    write_json(folder.path / place, result)


def words(context: Any) -> Iterator[str]:
    """Yield the options of the running command that were given, as words of a command line."""
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        is_given = source is not None and source.name == "COMMANDLINE"
        if parameter.param_type_name != "option" or not is_given or name == SHOWS_ONLY:
            continue
        value = context.params[name]
        if isinstance(value, bool):
            yield parameter.opts[0] if value else parameter.secondary_opts[0]
            continue
        for one in value if isinstance(value, list | tuple) else (value,):
            yield from (parameter.opts[0], str(one))
