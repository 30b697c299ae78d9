"""What a caller gives, as the stages take it: sizes, times, lists; and the options as words."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from tracekit.asked import asked
from tracekit.errors import UsageError
from tracekit.units import BLOCK_BYTES, parse_duration, parse_size, size_text

PathLike = str | os.PathLike[str]
Size = int | str
"""Bytes, or a text such as 64MiB."""
Duration = float | str
"""Seconds, or a text such as 90s, 500ms or 10min."""
Texts = str | Sequence[str]
Sizes = Size | Sequence[Size]
Numbers = int | str | Sequence[int]

Kind = TypeVar("Kind")


def maybe_path(value: PathLike | None) -> Path | None:
    """Return a path that may be left out."""
    return None if value is None else Path(value)


def texts(value: Texts | None) -> tuple[str, ...]:
    """Return the values of an option that can be repeated."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(str(one) for one in value)


def parts(value: Any) -> list[str]:
    """Return the parts of a text with commas, or of a list."""
    several = value.split(",") if isinstance(value, str) else value
    if isinstance(several, int | float):
        several = (several,)
    return [text for one in several if (text := str(one).strip())]


def joined(value: Any) -> str:
    """Return a list as text with commas between its parts."""
    return value if isinstance(value, str) else ",".join(parts(value))


def size_bytes(value: Size, *, option: str) -> int:
    """Return the bytes of a size; a number is bytes, text has a unit, else UsageError."""
    return parse_size(size_text(value), option=option)


def maybe_bytes(value: Size, *, option: str) -> int | None:
    """Return the bytes of a size, None for an empty text."""
    return size_bytes(value, option=option) if value else None


def sizes_bytes(value: Sizes, *, option: str) -> tuple[int, ...]:
    """Return the bytes of sizes; numbers are bytes, texts have units, else UsageError."""
    return tuple(parse_size(text, option=option) for text in _size_texts(value))


def _size_texts(value: Sizes) -> list[str]:
    several = (value,) if isinstance(value, int) else value
    return parts(several if isinstance(several, str) else [*map(size_text, several)])


def capacities(value: Sizes, *, option: str = "--capacity") -> tuple[int, ...]:
    """Return the bytes of capacities; raise UsageError for one that holds no block."""
    found = sizes_bytes(value, option=option)
    for text, size in zip(_size_texts(value), found, strict=True):
        if 0 < size < BLOCK_BYTES:
            raise UsageError(
                f"{option} {text}: less than a block of {BLOCK_BYTES} bytes",
                hint="write for example 16MiB or 16GiB",
            )
    return found


def maybe_capacity(value: Size, *, option: str = "--capacity") -> int | None:
    """Return the bytes of a capacity, None for an empty text."""
    return capacities(size_text(value), option=option)[0] if value else None


def duration_ns(value: Duration, *, option: str) -> int:
    """Return the nanoseconds of a time; a number is seconds, text has a unit."""
    return parse_duration(time_text(value) or "", option=option)


def seconds(value: Duration | None, *, option: str) -> float | None:
    """Return a time in seconds."""
    if value is None or isinstance(value, int | float):
        return value
    return parse_duration(value, option=option) / 1e9


def time_text(value: Duration | None) -> str | None:
    """Return a time as text with a unit, for stages that read it so; a number is seconds."""
    return f"{value}s" if isinstance(value, int | float) else value


def numbers(value: Numbers, *, option: str) -> tuple[int, ...]:
    """Return whole numbers; raise UsageError, naming the option."""
    try:
        return tuple(int(text) for text in parts(value))
    except ValueError:
        raise UsageError(f"{option} {value}: not whole numbers with commas between them") from None


def chosen(kind: type[Kind], given: Mapping[str, Any], **named: Any) -> Kind:
    """Return a stage's options: `named`, and from `given`, a call's own, those of the same name.

    Paths, texts and what can be repeated become what the stage has; `asked` is kept, too.
    """
    hints = get_type_hints(kind)
    given = {**given, "asked": asked()}
    if isinstance(size := given.get("placement"), int):
        given["placement"] = size_text(size)
    same = {name: _as(hints[name], given[name]) for name in hints.keys() & given.keys()}
    return kind(**{**same, **named})


def _as(hint: Any, value: Any) -> Any:
    if hint == tuple[str, ...]:
        return texts(value)
    if value is None or not {Path, str} & {hint, *get_args(hint)}:
        return value
    return Path(value) if Path in (hint, *get_args(hint)) else str(value)
