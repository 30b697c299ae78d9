"""The options that a simulation was asked with, kept beside its answer: the report tells them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracekit.store import TraceFolder, write_json

SHOWS_ONLY = "as_json"  # changes what is printed, not what is found


def keep_asked(folder: TraceFolder, result: dict[str, Any], *, context: Any) -> None:
    """Add `asked`, the words of the running command's options, to its answer and its JSON file.

    `context` is the command's typer.Context.
    """
    result["asked"] = list(_words(context))
    write_json(folder.path / "simulations" / f"{context.command.name}.json", result)


def _words(context: Any) -> Iterator[str]:
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
