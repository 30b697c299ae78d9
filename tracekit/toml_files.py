"""TOML files of a user: read within limits, and where in them a value stands, for messages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tracekit.errors import InputError
from tracekit.safe_open import check_depth, read_given

TOML_BYTES = 16 << 20
_DEEP_KEY = re.compile(r"(?<![\w\"'.-])(?:[\w\"'-]++[ \t]*+\.[ \t]*+){64}")
"""Such as a.a.a.a: the time of Python's reader grows with the square of its length."""
_LINE = re.compile(r"(.*) \(at line (\d+), column \d+\)")
LONGEST_SHOWN = 100
Keys = tuple[str | int, ...]


def load_toml(file: Path) -> tuple[str, dict[str, Any]]:
    """Return text and content of a TOML file; raise InputError where it cannot be read."""
    text = ""
    try:
        text = read_given(file, most_bytes=TOML_BYTES).decode()
        return text, _parsed(text)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except RecursionError:
        raise InputError(f"{file}: TOML nested too deeply") from None
    # Of a number of thousands of digits Python says only that it is a wrong value.
    except ValueError as error:
        raise InputError(f"{file} is not valid TOML: {_with_line(str(error), text)}") from None


def _with_line(message: str, text: str) -> str:
    """Return what is wrong, by which line and what is in it."""
    found = _LINE.fullmatch(message)
    if found is None:
        return message
    line = text.split("\n")[int(found[2]) - 1].strip()
    return f"line {found[2]}: {found[1]}: {line[:LONGEST_SHOWN]!r}"


def _parsed(text: str) -> dict[str, Any]:
    if _DEEP_KEY.search(text):
        raise RecursionError
    content = tomllib.loads(text + "\n")  # so that an error in the last line has its number
    check_depth(content)
    return content


@dataclass(frozen=True)
class Place:
    """Where in a file something stands; in a message it is the file, the line, and `words`."""

    file: Path
    text: str
    keys: Keys = ()
    words: str = ""

    def __str__(self) -> str:
        """Look the line up, which only a message needs."""
        lines = lines_of(self.text)
        known = (self.keys[:end] for end in range(len(self.keys), 0, -1))
        line = next((lines[keys] for keys in known if keys in lines), None)
        return f"{self.file}{'' if line is None else f', line {line}'}{self.words}"

    def at(self, *keys: str | int, words: str | None = None) -> Place:
        """Return the place of a key in a table, or of an entry by its number from 0."""
        if words is None:
            named = (f"number {k + 1}" if isinstance(k, int) else f"key '{k}'" for k in keys)
            words = "".join(f", {name}" for name in named)
        return replace(self, keys=self.keys + keys, words=self.words + words)

    def on(self, key: str) -> Place:
        """Return the line of a key, in the words of its table."""
        return self.at(key, words="")


MOST_PARSED = 4 << 20
"""Characters that are read again to find a line: a second's work."""


def lines_of(text: str) -> dict[Keys, int]:
    """Return the line in which each table, key and entry of valid TOML begins.

    A statement by itself is TOML, too, and while it is none its value goes on in the next line.
    """
    found: dict[Keys, int] = {}
    entries: dict[Keys, int] = {}
    table, statement, start, left = Keys(), "", 1, MOST_PARSED
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        statement, start = (f"{statement}\n{line}", start) if statement else (line, number)
        left -= len(statement)
        if left < 0:
            break
        try:
            content = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue
        if statement.lstrip().startswith("["):
            table = _opened(content, entries)
            keys = [table[:end] for end in range(1, len(table) + 1)]
        else:
            keys = [table + one for one in _keys_in(content)]
        for one in keys:
            found.setdefault(one, start)
        statement = ""
    return found


def _opened(content: Any, entries: dict[Keys, int]) -> Keys:
    """Return the keys of the table that a header begins; `entries` has the last of each array."""
    table = Keys()
    while content:
        if isinstance(content, list):
            entries[table] = entries.get(table, -1) + 1
            content = content[0]
        else:
            ((name, content),) = content.items()
            table += (name,)
            if isinstance(content, list):
                continue
        if table in entries:
            table += (entries[table],)
    return table


def _keys_in(content: Any) -> Iterator[Keys]:
    pairs = content.items() if isinstance(content, dict) else ()
    for key, value in enumerate(content) if isinstance(content, list) else pairs:
        yield (key,)
        yield from ((key, *rest) for rest in _keys_in(value))


def check_keys(table: Collection[str], known: Collection[str], *, place: Place) -> None:
    """Raise InputError for a key of a table that is not one of the known ones."""
    for key in table:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"the keys are: {', '.join(known)}"
            raise InputError(f"{place.on(key)}: unknown key '{key}'", hint=hint)
