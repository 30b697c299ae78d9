"""The options of the call that runs, as words of the command line that does the same."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

REPEATED = frozenset(
    (
        *("budget", "device", "only", "op", "overwrite_signature", "param", "priority"),
        *("recorded", "role", "run", "settings", "target", "unit", "vary", "write_to"),
    )
)
"""Options of which each value stands behind its own word; others have commas between values."""
UNITS = {"Size": "B", "Duration": "s"}
"""Of numbers, by the kinds of a call's parameters: the command line wants texts with units."""
OPTIONS = {"settings": "--set", "recorded": "--from"}
MAKERS = ("parse", "read", "generate")
HOW_AND_WHERE = ("output", "force", "resume")
"""Options of calls that make a trace folder of which the folder has no sign."""
_ASKED: ContextVar[tuple[str, tuple[str, ...]] | None] = ContextVar("asked", default=None)


def asked(of: str = "") -> tuple[str, ...]:
    """Return the options of the running call; none where it is another than the one it is `of`."""
    name, words = _ASKED.get() or ("", ())
    return words if of in ("", name) else ()


def keeps_words(call: Callable[P, R]) -> Callable[P, R]:
    """Let the call know its own options as words: they are kept beside its answer.

    What a method takes by place is an option of its command, what a function takes an argument.
    """
    names = [*signature(call).parameters]

    @wraps(call)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        by_place = dict(zip(names[1:], args[1:], strict=False)) if names[0] == "self" else {}
        with asking(call, {**by_place, **kwargs}):
            return call(*args, **kwargs)

    return wrapped


@contextmanager
def asking(call: Callable[..., Any], given: Mapping[str, Any]) -> Iterator[None]:
    """Let `asked` return the options that were given to a call; those of an outer call stay."""
    if _ASKED.get() is not None:
        yield
        return
    defaults = {one.name: one.default for one in signature(call).parameters.values()}
    left_out = HOW_AND_WHERE if call.__name__ in MAKERS else ()
    kept = {name: value for name, value in given.items() if name not in left_out}
    units = {name: _unit(one.annotation) for name, one in signature(call).parameters.items()}
    texts = {name: _with_unit(value, units.get(name, "")) for name, value in kept.items()}
    with with_words(call.__name__, texts, defaults=defaults):
        yield


def _unit(annotation: object) -> str:
    """Return the unit of the numbers that a call takes beside texts, which the words need."""
    return next((unit for kind, unit in UNITS.items() if kind in str(annotation)), "")


def _with_unit(value: Any, unit: str) -> Any:
    if isinstance(value, list | tuple):
        return [_with_unit(one, unit) for one in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value}{unit}" if unit and is_number else value


@contextmanager
def with_words(
    name: str, given: Mapping[str, Any], *, defaults: Mapping[str, Any] = {}
) -> Iterator[None]:
    """Let `asked` return the options of a stage that a call runs with options of its own."""
    token = _ASKED.set((name, tuple(_words(given, defaults))))
    try:
        yield
    finally:
        _ASKED.reset(token)


def runs_words(runs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return runs that take turns as the command line has them, NAME: OPTIONS."""
    defaults = dict.fromkeys({name for one in runs.values() for name in one}, False)
    return [f"{name}: {shlex.join(_words(one, defaults))}" for name, one in runs.items()]


def _words(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[str]:
    for name, value in given.items():
        option = OPTIONS.get(name, f"--{name.replace('_', '-')}")
        if value is None or name == "command":
            continue
        if isinstance(value, bool):
            if value != defaults[name]:
                yield option if value else f"--no-{option[2:]}"
        elif isinstance(value, list | tuple) and name in REPEATED:
            for one in value:
                yield from (option, str(one))
        else:
            is_list = isinstance(value, list | tuple)
            yield from (
                option,
                ",".join(str(one).strip() for one in value) if is_list else str(value),
            )
