"""The formats that import knows, listed, and those of the user's own format files.

A format file describes a text once: its columns or a regular expression, its units and its words.
It is given by its path, or by its name if it lies in the user's folder of formats.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import Any

import msgspec

from tracekit.choices import ImportFormat, words
from tracekit.errors import InputError, UsageError
from tracekit.escapes import joined
from tracekit.readers import text
from tracekit.readers.units import ImportOptions
from tracekit.readers.unknown import with_one_operation
from tracekit.toml_files import Place, load_toml

SUFFIX = ".toml"
BUILT_IN = Path(__file__).with_name("formats.toml")


class FormatFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The content of a format file."""

    about: str = ""
    source: str = ""
    """Where such traces are found."""
    columns: str | None = None
    regex: str | None = None
    delimiter: str = ","
    unit: dict[str, str] = {}
    op: dict[str, str] = {}
    example: str = ""
    """Some lines of such a text."""

    @property
    def units(self) -> tuple[str, ...]:
        """The units as --unit takes them."""
        return tuple(f"{name}={unit}" for name, unit in self.unit.items())

    @property
    def operations(self) -> tuple[str, ...]:
        """The words of operations as --op takes them."""
        return tuple(f"{word}={name}" for word, name in self.op.items())

    def form(self) -> text.TextFormat:
        """Return the format; raise UsageError or InputError for what cannot be."""
        if (self.columns is None) == (self.regex is None):
            raise UsageError("give either columns or a regex")
        if self.regex is not None:
            return text.user_pattern(self.regex, units=self.units)
        return text.user_format(self.columns or "", self.delimiter, units=self.units)


def own_folder() -> Path:
    """Return the folder of the user's format files."""
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(config) / "tracekit/formats"


def own_files() -> dict[str, Path]:
    """Return the user's format files by name; a name that is built in hides a file of it."""
    found = {file.stem: file for file in sorted(own_folder().glob(f"*{SUFFIX}"))}
    return {name: file for name, file in found.items() if name not in words(ImportFormat)}


def load_format(file: Path) -> FormatFile:
    """Read a format file; raise InputError that names the line of what is wrong in it."""
    source, content = load_toml(file)
    try:
        found = msgspec.convert(content, FormatFile)
        found.form()
        text.user_words(found.operations)
    except msgspec.ValidationError as error:
        keys = [key for key in content if f"`$.{key}" in str(error) or f"`{key}`" in str(error)]
        raise InputError(f"{Place(file, source).at(*keys[:1])}: {error}") from None
    except (UsageError, InputError) as error:
        option = str(error).partition(" ")[0].lstrip("-")
        place = Place(file, source).at(option) if option in content else file
        raise InputError(f"{place}: {error}", hint=error.hint) from None
    return found


def with_format_file(options: ImportOptions) -> ImportOptions:
    """Return the options with what a format file says, where --format names one.

    Raise UsageError for a format that there is not, and for columns that are given twice.
    """
    options = with_one_operation(options)
    name = options.form
    if name is None or name in words(ImportFormat):
        _reject_unused(options)
        return options
    file = Path(name) if name.endswith(SUFFIX) else own_files().get(name)
    if file is None:
        raise UsageError(
            f"--format {name}: there is no such format",
            hint=f"known are {', '.join((*words(ImportFormat), *own_files()))}, and FILE{SUFFIX}",
        )
    if options.columns or options.regex or options.blkparse_format is not None:
        raise UsageError(
            f"--format {name} names the columns, as --columns, --regex and --blkparse-format do",
            hint="give one of them",
        )
    found = load_format(file)
    if options.delimiter is not None and found.regex:
        message = f"--delimiter {options.delimiter!r}: {file} has a regular expression"
        raise UsageError(message, hint="leave --delimiter out")
    return replace(
        options,
        form=None,
        columns=found.columns,
        regex=found.regex,
        delimiter=found.delimiter if options.delimiter is None else options.delimiter,
        units=(*found.units, *options.units),
        operations=(*found.operations, *options.operations),
        described=len(found.operations),
        named=file.stem,
    )


def _reject_unused(options: ImportOptions) -> None:
    """Raise UsageError for options that would change nothing beside the others."""
    if options.form and (options.columns or options.regex):
        message = f"--format {options.form} names the columns, as --columns and --regex do"
        raise UsageError(message, hint="give one of them")
    if options.delimiter is not None and not options.columns:
        raise UsageError(
            f"--delimiter {options.delimiter!r}: it belongs to --columns",
            hint="leave it out: known formats are read with any; or name the columns: --columns",
        )


@dataclass(frozen=True)
class Listing:
    """Some formats: a line each, or one in full."""

    found: Mapping[str, Mapping[str, Any]]
    is_full: bool
    broken: Sequence[str] = ()
    """What is wrong with the user's files that are no formats."""

    @property
    def summary(self) -> dict[str, Any]:
        """What the command prints with `--json`."""
        formats = [{"name": name, **one} for name, one in self.found.items()]
        return {"formats": formats, "broken": list(self.broken)}

    @property
    def text(self) -> str:
        """A line for each format, or all of those that were named."""
        if self.is_full:
            blocks = (_full(name, one) for name, one in self.found.items())
            return joined([line for block in blocks for line in (*block, "")][:-1])
        width = max(map(len, self.found))
        lines = (f"{name:<{width}}  {one['about']}" for name, one in self.found.items())
        return joined(
            [*lines, "", "tracekit formats NAME: an example, what it lacks, where it is found"]
        )


def list_formats(names: Sequence[str] = ()) -> Listing:
    """Return these formats, or all with the files that are none; UsageError for one that is not."""
    known, broken = dict(_built_in()), list[str]()
    for name, file in own_files().items():
        if not names or name in names:
            try:
                known[name] = _own(file)
            except InputError as error:
                if names:
                    raise
                broken.append(str(error))
    for name in names:
        if name.endswith(SUFFIX):
            known[name] = _own(Path(name))
        elif name not in known:
            raise UsageError(
                f"{name}: there is no such format",
                hint=f"known are {', '.join({**known, **own_files()})}",
            )
    found = {name: known[name] for name in dict.fromkeys(names)} or known
    return Listing(found, bool(names), broken)


@cache
def _built_in() -> dict[str, dict[str, Any]]:
    _, content = load_toml(BUILT_IN)
    return {
        name: {**one, "example": one.get("example", "").lstrip("\n"), "file": None}
        for name, one in content.items()
    }


LACKS = ("time", "op", "response", "device", "process", "pid")
"""Columns that a text may be without; lengths it has, and places on a disk or within files."""


def _own(file: Path) -> dict[str, Any]:
    found = load_format(file)
    return {
        "about": found.about or f"own format of {file}",
        "lacks": sorted(lacking(found.form())),
        "source": found.source,
        "example": found.example.lstrip("\n"),
        "file": str(file),
    }


def lacking(form: text.TextFormat) -> set[str]:
    """Return which of the columns a text format lacks."""
    places = {"place"} if "file" in form.columns else set[str]()
    return set(LACKS) - set(form.columns) | places


def _full(name: str, one: Mapping[str, Any]) -> Iterator[str]:
    yield name
    yield f"  {one['about']}"
    if one["source"]:
        yield f"  found: {one['source']}"
    if one["lacks"]:
        yield f"  lacks: {', '.join(one['lacks'])}"
    if one["file"]:
        yield f"  file: {one['file']}"
    if one["example"]:
        yield "  example:"
        yield from indent(one["example"].rstrip("\n"), "    ").split("\n")
