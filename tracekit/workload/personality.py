"""A personality in memory: checked, with all parameters filled in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tracekit.errors import InputError, UsageError
from tracekit.toml_files import load_toml
from tracekit.units import SECTOR_BYTES, parse_size
from tracekit.workload.keys import Keys

ACTIONS = (
    "create",
    "open",
    "close",
    "read_file",
    "write_file",
    "append",
    "read",
    "write",
    "fsync",
    "fdatasync",
    "stat",
    "delete",
)
"""What an operation does; `read_file` and `write_file` go through the whole file."""
ON_HANDLE = ("close", "read_file", "write_file", "append", "read", "write", "fsync", "fdatasync")
MOVES_DATA = ("read_file", "write_file", "append", "read", "write")
HANDLES = 8


@dataclass(frozen=True)
class FileSet:
    """Files of one kind. Sizes follow a gamma distribution of mean and shape; shape 0: all equal.

    A shared set is used by all threads, who create and delete nothing in it; of another one each
    thread has its own part. `present_ratio` of the files are there before the run.
    """

    name: str
    count: int
    mean_bytes: int
    shape: float
    directory_width: int
    present_ratio: float
    is_shared: bool


@dataclass(frozen=True)
class Operation:
    """One entry of the flow that each thread repeats.

    `size_bytes` is of one call; of an append that `is_random` the most, drawn evenly from 1.
    `files` of an append names a shared set that stays open all the time.
    """

    action: str
    files: str | None = None
    handle: int = 1
    size_bytes: int = 0
    is_random: bool = False
    is_direct: bool = False
    is_sync: bool = False
    label: str = ""


@dataclass(frozen=True)
class Personality:
    """A name, its file sets, and what each of `threads` threads does again and again."""

    name: str
    about: str
    threads: int
    file_sets: tuple[FileSet, ...]
    flow: tuple[Operation, ...]
    parameters: dict[str, int | float] = field(default_factory=dict)
    definition: str = ""
    """Digest of its files and operations, before parameters are put in."""

    def file_set(self, name: str) -> FileSet:
        """Return the file set of that name, which must be there."""
        return next(one for one in self.file_sets if one.name == name)

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the steps, each once, in the order of the flow."""
        return tuple(dict.fromkeys(operation.label for operation in self.flow))

    def churn(self, files: str) -> tuple[int, int]:
        """Return how many files of a set one turn of the flow creates and deletes."""
        return (
            sum(one.action == "create" and one.files == files for one in self.flow),
            sum(one.action == "delete" and one.files == files for one in self.flow),
        )


SHIPPED = Path(__file__).with_name("personalities")
TOP = ("about", "parameters", "files", "operation")
TABLES = {
    "files": ("name", "count", "mean_size", "size_shape", "directory_width", "present_ratio",
              "shared"),
    "operation": ("do", "files", "handle", "size", "random", "direct", "sync", "label", "times"),
}  # fmt: skip
MOST_FILES = 50_000_000
MOST_THREADS = 4096
MOST_BYTES = 1 << 46
MOST_TRANSFER_BYTES = 64 << 20


def shipped() -> tuple[str, ...]:
    """Return the names of the shipped personalities."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.toml")))


def is_personality(name: str) -> bool:
    """Say whether it is a shipped personality, or a TOML file with what only these have."""
    file = Path(name)
    return name in shipped() or (
        file.is_file()
        and not load_toml(file)[1].keys().isdisjoint(("parameters", "files", "operation"))
    )


def open_personality(
    name: str, settings: Mapping[str, str], *, given_by: Mapping[str, str] = MappingProxyType({})
) -> Personality:
    """Return a shipped personality, or that of a TOML file, with other values of parameters.

    `given_by` has the option that gave each of `settings`, `--set KEY` where it has none.

    Raises UsageError for a name or parameter that does not exist, InputError naming file, place,
    key and value for whatever is wrong in the file.
    """
    file = SHIPPED / f"{name}.toml" if name in shipped() else Path(name)
    if not file.is_file():
        raise UsageError(
            f"there is no personality '{name}'",
            hint=f"shipped are {', '.join(shipped())}; or name a TOML file",
        )
    content = load_toml(file)[1]
    top = Keys(content, str(file), known=TOP)
    place = f"{file}, [parameters]"
    values = _parameters(content.get("parameters", {}), place)
    options = {key: given_by.get(key, f"--set {key}") for key in settings}
    _set(values, settings, options, name=file.stem)
    parameters = Keys(values, place, known=tuple(values), given_by=options)
    threads = parameters.whole("threads", low=1, high=MOST_THREADS)
    sets, flow = (
        _tables(top, kind, values=values, options=options) for kind in ("files", "operation")
    )
    found = Personality(
        name=file.stem,
        about=top.text("about", ""),
        threads=threads,
        file_sets=tuple(_file_set(keys) for keys in sets),
        flow=tuple(one for keys in flow for one in _operations(keys)),
        parameters=values,
        definition=_digest(content),
    )
    _check_used(content, values, file)
    _check(found, file)
    return found


def _digest(content: Mapping[str, Any]) -> str:
    content_text = json.dumps([content["files"], content["operation"]], sort_keys=True, default=str)
    return hashlib.sha256(content_text.encode()).hexdigest()[:8]


def _parameters(table: Any, place: str) -> dict[str, int | float]:
    if not isinstance(table, Mapping):
        raise InputError(f"{place}: {table!r} is no table")
    return {key: _value(value, f"{place}, key '{key}'") for key, value in table.items()}


def _value(value: Any, place: str) -> int | float:
    if isinstance(value, str):
        return parse_size(value, option=place)
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return value
    raise InputError(f"{place}: {value!r} is neither a number nor a size such as 16KiB")


def _set(
    values: dict[str, int | float],
    settings: Mapping[str, str],
    options: Mapping[str, str],
    *,
    name: str,
) -> None:
    for key, text in settings.items():
        if key not in values:
            close = get_close_matches(key, values, n=1)
            raise UsageError(
                f"the personality {name} has no parameter '{key}'",
                hint=f"did you mean '{close[0]}'?" if close else f"it has {', '.join(values)}",
            )
        try:
            values[key] = int(text) if text.isdigit() else float(text)
        except ValueError:
            values[key] = parse_size(text, option=options[key])


def _tables(
    top: Keys, kind: str, *, values: Mapping[str, int | float], options: Mapping[str, str]
) -> list[Keys]:
    """Return the tables of a kind, `$name` replaced by the value of that parameter."""
    found = top.tables(kind, *TABLES[kind])
    if not found:
        hint = f"add at least one [[{kind}]]"
        raise InputError(f"{top.place}: there is no [[{kind}]]", hint=hint)
    tables = []
    for keys in found:
        filled, given_by = dict(keys.content), {}
        for key, value in keys.content.items():
            if not isinstance(value, str) or not value.startswith("$"):
                continue
            name = value[1:]
            if name not in values:
                raise keys.wrong(key, "names no parameter", hint=f"there are {', '.join(values)}")
            filled[key] = values[name]
            if name in options:
                given_by[key] = options[name]
        tables.append(Keys(filled, keys.place, known=TABLES[kind], given_by=given_by))
    return tables


def _check_used(content: Mapping[str, Any], values: Mapping[str, Any], file: Path) -> None:
    """Raise InputError for a parameter that changes nothing, as a misspelt one."""
    tables = [*content["files"], *content["operation"]]
    used = {value for table in tables for value in table.values() if isinstance(value, str)}
    for key in values:
        if key != "threads" and f"${key}" not in used:
            raise InputError(
                f"{file}, [parameters], key '{key}': nothing uses it",
                hint=f'write "${key}" where it belongs, or remove it',
            )


def _file_set(keys: Keys) -> FileSet:
    return FileSet(
        name=_plain(keys, "name"),
        count=keys.whole("count", low=1, high=MOST_FILES),
        mean_bytes=int(_size(keys, "mean_size", MOST_BYTES)),
        shape=keys.number("size_shape", low=0, high=1e6, default=0),
        directory_width=keys.whole("directory_width", low=1, high=1e9, default=1_000_000),
        present_ratio=keys.number("present_ratio", low=0, high=1, default=1),
        is_shared=keys.flag("shared", default=False),
    )


def _plain(keys: Keys, key: str) -> str:
    text = keys.text(key)
    is_plain = text.isascii() and text.replace("-", "").replace("_", "").isalnum()
    if not is_plain or len(text) > 31:
        raise keys.wrong(key, "is not 1 to 31 letters, digits, '-' and '_'")
    return text


def _size(keys: Keys, key: str, most: int) -> int:
    size = keys.size(key)
    if size > most:
        raise keys.wrong(key, f"is more than {most >> 20} MiB")
    return size


def _operations(keys: Keys) -> list[Operation]:
    action = keys.choice("do", ACTIONS)
    needs_files = action not in ON_HANDLE
    if needs_files or (action == "append" and keys.has("files")):
        files: str | None = keys.text("files")
    elif keys.has("files"):
        raise keys.wrong("files", f"has no meaning for {action}, which goes by its handle")
    else:
        files = None
    if keys.has("size") != (action in MOVES_DATA):
        raise InputError(
            f"{keys.place}: {action} {'needs' if action in MOVES_DATA else 'takes no'} size"
        )
    one = Operation(
        action=action,
        files=files,
        handle=keys.whole("handle", low=1, high=HANDLES, default=1),
        size_bytes=_size(keys, "size", MOST_TRANSFER_BYTES) if action in MOVES_DATA else 0,
        is_random=keys.flag("random", default=False),
        is_direct=keys.flag("direct", default=False),
        is_sync=keys.flag("sync", default=False),
        label=_plain(keys, "label") if keys.has("label") else action,
    )
    return [one] * keys.whole("times", low=1, high=10_000, default=1)


def _check(personality: Personality, file: Path) -> None:
    """Raise InputError for what no single table shows to be wrong."""
    sets = {one.name: one for one in personality.file_sets}
    if len(sets) < len(personality.file_sets):
        raise InputError(f"{file}: two [[files]] have the same name")
    opened: dict[int, FileSet | None] = {}
    for number, one in enumerate(personality.flow, start=1):
        problem, hint = _problem(one, sets, opened)
        if problem:
            place = f"{file}, operation {number} ({one.action})"
            raise InputError(f"{place}: {problem}", hint=hint)
        if one.action in ("create", "open"):
            opened[one.handle] = sets[one.files or ""] if one.is_direct else None
        elif one.action == "close":
            del opened[one.handle]
    if opened:
        raise InputError(
            f"{file}: the flow ends without closing handle {min(opened)}",
            hint='add an [[operation]] with do = "close" for it',
        )


def _problem(
    one: Operation, sets: Mapping[str, FileSet], opened: Mapping[int, FileSet | None]
) -> tuple[str, str]:
    """Return what is wrong with an operation, nothing if it can be done, and a hint.

    `opened` has the open handles, with the files of one that is for direct I/O.
    """
    hint = problem = ""
    named = sets.get(one.files or "")
    is_shared = named is not None and named.is_shared
    files = opened.get(one.handle) if one.action in MOVES_DATA and one.files is None else None
    if one.files is not None and named is None:
        problem = f"there are no files '{one.files}'"
        hint = f"[[files]] are named {', '.join(sorted(sets))}"
    elif is_shared and one.action in ("create", "delete"):
        problem = "threads create and delete only in files of their own"
    elif one.action == "append" and one.files is not None and not is_shared:
        problem = "files that stay open must be shared"
    elif one.action in ON_HANDLE and one.files is None and one.handle not in opened:
        problem = f"nothing is open as handle {one.handle}"
    elif files is not None and (wrong := _unaligned(one, files)):
        problem = f"{wrong}, which direct I/O refuses"
        hint = f"use multiples of {SECTOR_BYTES} bytes, or leave `direct` out"
    return problem, hint


def _unaligned(one: Operation, files: FileSet) -> str:
    """Return which size is no multiple of a sector, nothing if all are; reads may end early."""
    if one.size_bytes % SECTOR_BYTES:
        return f"calls of {one.size_bytes:,} bytes"
    if one.action in ("append", "write_file"):
        if one.is_random:
            return "calls of a random size"
        if files.shape or files.mean_bytes % SECTOR_BYTES:
            drawn = "sizes that are drawn" if files.shape else f"{files.mean_bytes:,} bytes each"
            return f"the files '{files.name}' have {drawn}, so that writes end within a sector"
    return ""
