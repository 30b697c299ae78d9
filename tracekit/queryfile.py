"""One SQL file of `analyzers/`: its text, and what the comment at its head says of it."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tracekit.errors import InputError, UsageError
from tracekit.paths import data_folder

_PARAMETER = re.compile(
    r"(?P<name>[a-z]\w*) \((?P<unit>[a-z]+), (?P<low>\d+) to (?P<high>\d+), "
    r"default (?P<default>\d+)\): (?P<meaning>.+)"
)
_COLUMN = re.compile(r"(?P<names>[a-z]\w*(?:, [a-z]\w*)*): (?P<meaning>.+)")


@dataclass(frozen=True)
class Parameter:
    """A value that a query takes: `$name`, a whole number of `unit` from `low` to `high`."""

    name: str
    unit: str
    low: int
    high: int
    default: int
    meaning: str


@dataclass(frozen=True)
class Query:
    """One file of `analyzers/`: its text and what its header says of it."""

    name: str
    text: str
    question: str
    grain: str
    reads: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    columns: Mapping[str, str]

    @property
    def table(self) -> str:
        """Name of the table the query makes: the last part of its name."""
        return self.name.rpartition("/")[2]

    def values(self, given: Mapping[str, int]) -> dict[str, int]:
        """Return the value of each parameter, the default where none is given.

        UsageError names a parameter that the query does not have, or a value out of its range.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        for name, value in given.items():
            if name not in known:
                names = ", ".join(known) or "none"
                raise UsageError(
                    f"{self.name} has no parameter '{name}'", hint=f"its parameters are: {names}"
                )
            if not known[name].low <= value <= known[name].high:
                raise UsageError(
                    f"{self.name}: {name} is {value} {known[name].unit}",
                    hint=f"from {known[name].low} to {known[name].high} are possible",
                )
        return {name: given.get(name, known[name].default) for name in known}


@functools.cache
def read(name: str) -> Query:
    """Read and parse one file; UsageError when there is no query of that name."""
    file = data_folder("analyzers") / f"{name}.sql"
    if not file.is_file():
        raise UsageError(f"there is no analysis '{name}'", hint="see: tracekit analyze --list")
    return parse(name, file.read_text())


def parse(name: str, text: str) -> Query:
    """Make a query of a file's text; InputError says what its header lacks."""
    file = f"analyzers/{name}.sql"
    notes = _header_notes(text)
    return Query(
        name=name,
        text=text,
        question=_one(file, notes, "question"),
        grain=_one(file, notes, "grain"),
        reads=tuple(_one(file, notes, "reads").split(", ")),
        parameters=tuple(_parameter(file, note) for note in notes.get("parameter", [])),
        columns=_columns(file, notes.get("column", [])),
    )


def _header_notes(text: str) -> dict[str, list[str]]:
    """Gather the `-- key: value` lines of the leading comment; others go on with a value.

    An empty comment line ends the last value, so that what follows is only a comment.
    """
    notes: dict[str, list[str]] = {}
    values: list[str] = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        body = line[2:].strip()
        key, colon, value = body.partition(": ")
        if colon and key in ("question", "grain", "reads", "parameter", "column"):
            values = notes.setdefault(key, [])
            values.append(value)
        elif not body:
            values = []
        elif values:
            values[-1] += " " + body
    return notes


def _one(file: str, notes: dict[str, list[str]], key: str) -> str:
    if len(notes.get(key, [])) != 1:
        raise InputError(f"{file}: the header must say '-- {key}:' exactly once")
    return notes[key][0]


def _parameter(file: str, note: str) -> Parameter:
    match = _PARAMETER.fullmatch(note)
    if match is None:
        raise InputError(f"{file}: not 'name (unit, 1 to 9, default 5): meaning': {note}")
    low, high, default = (int(match[key]) for key in ("low", "high", "default"))
    return Parameter(match["name"], match["unit"], low, high, default, match["meaning"])


def _columns(file: str, notes: list[str]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for note in notes:
        match = _COLUMN.fullmatch(note)
        if match is None:
            raise InputError(f"{file}: the column is not 'name, name: meaning': {note}")
        columns.update(dict.fromkeys(match["names"].split(", "), match["meaning"]))
    return columns
