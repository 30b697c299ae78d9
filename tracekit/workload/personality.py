"""Personalities as TOML files, the shipped ones among them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tracekit.errors import InputError, UsageError
from tracekit.toml_files import load_toml
from tracekit.units import SECTOR_BYTES, format_size, parse_size
from tracekit.workload.flow import FileSet, Group, Operation, Personality
from tracekit.workload.keys import Keys
from tracekit.workload.random_values import RandomValue, Value
from tracekit.workload.reader import find_definition, read_profile
from tracekit.workload.reader import shipped as profiles

ACTIONS = {
    "create": "createfile",
    "open": "openfile",
    "close": "closefile",
    "read_file": "readwholefile",
    "write_file": "writewholefile",
    "append": "appendfile",
    "read": "read",
    "write": "write",
    "fsync": "fsync",
    "fdatasync": "fsync",
    "stat": "statfile",
    "delete": "deletefile",
}
"""What an operation does, by filebench's name of it."""
ON_HANDLE = ("close", "read_file", "write_file", "append", "read", "write", "fsync", "fdatasync")
MOVES_DATA = ("read_file", "write_file", "append", "read", "write")
HANDLES = 8
SHIPPED = Path(__file__).with_name("personalities")
TOP = ("about", "base", "parameters", "files", "operation")
TABLES = {
    "files": ("name", "count", "mean_size", "size_shape", "directory_width", "directory_shape",
              "present_ratio"),
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
    """Say whether it is a shipped personality, a TOML file of one, or a file of filebench (.f)."""
    file = Path(name)
    return name in shipped() or (
        file.is_file()
        and (
            is_filebench(file)
            or not load_toml(file)[1]
            .keys()
            .isdisjoint(("base", "parameters", "files", "operation"))
        )
    )


def open_personality(
    name: str, settings: Mapping[str, str], *, given_by: Mapping[str, str] = MappingProxyType({})
) -> Personality:
    """Return a shipped personality, or that of a file, with other values of parameters.

    The file is TOML, or filebench's if its name ends in .f.

    `given_by` has the option that gave each of `settings`, `--set KEY` where it has none.

    Raises UsageError for a name or parameter that does not exist, InputError naming file, place,
    key and value for whatever is wrong in the file.
    """
    file = SHIPPED / f"{name}.toml" if name in shipped() else Path(name)
    if not file.is_file():
        raise UsageError(
            f"there is no personality '{name}'",
            hint=f"shipped are {', '.join(shipped())}; or name a file: TOML, or filebench (.f)",
        )
    if is_filebench(file):
        from tracekit.workload.filebench import read_filebench  # the parser imports slowly

        return read_filebench(file, settings, given_by=given_by)
    return _read_toml(file, settings, given_by)


@dataclass(frozen=True)
class Listing:
    """Shipped personalities and work profiles, or some by name: a line each, or in full."""

    found: Mapping[str, Mapping[str, Any]]
    is_full: bool

    @property
    def summary(self) -> dict[str, Any]:
        """What the command prints with `--json`: sizes in bytes, means where they are drawn."""
        return {"personalities": [{"name": name, **one} for name, one in self.found.items()]}

    @property
    def text(self) -> str:
        """A line for each, or the definitions of those that were named."""
        if self.is_full:
            whole = [f"# {one['file']}\n{one['definition']}" for one in self.found.values()]
            return "\n".join(whole).rstrip("\n")
        lines = [f"{'name':<20}{'runs on':<14}{'threads':>7}{'files':>12}{'of':>11}{'all':>11}"]
        for name, one in self.found.items():
            files, threads = one["files"], one["threads"]
            each = "-" if files is None else format_size(one["bytes"] / files)
            lines.append(
                f"{name:<20}{one['runs_on']:<14}{threads or '-':>7}"
                f"{'-' if files is None else format(files, ','):>12}{each:>11}"
                f"{format_size(one['bytes']):>11}  {one['about']}"
            )
        return "\n".join([*lines, "", "tracekit personalities NAME: its definition, to copy"])


def list_personalities(names: Sequence[str] = ()) -> Listing:
    """Return these personalities and work profiles, or all shipped; UsageError for another name."""
    known = dict.fromkeys(shipped(), _of_files) | dict.fromkeys(profiles(), _of_requests)
    for name in names:
        if name not in known and not Path(name).is_file():
            close = get_close_matches(name, known, n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            raise UsageError(
                f"there is no personality or work profile '{name}'",
                hint=f"{meant}there are: {', '.join(known)}; or name a file",
            )
    kinds = {
        name: known.get(name, _of_files if is_personality(name) else _of_requests)
        for name in dict.fromkeys(names)
    }
    return Listing({name: kind(name) for name, kind in (kinds or known).items()}, bool(names))


def _of_files(name: str) -> dict[str, Any]:
    found = open_personality(name, {})
    file = SHIPPED / f"{name}.toml" if name in shipped() else Path(name)
    return {
        "runs_on": "directory",
        "about": found.about,
        "threads": found.threads,
        "files": sum(one.count for one in found.file_sets),
        "bytes": round(sum(one.count * _mean(one.size) for one in found.file_sets)),
        "parameters": found.parameters,
        "file": str(file),
        "definition": file.read_text(),
    }


def _mean(size: Value) -> float:
    if not isinstance(size, RandomValue):
        return size
    of = dict(size.parameters)
    return of["mean"] if size.family == "gamma" and "mean" in of else size.table(1000).mean()


def _of_requests(name: str) -> dict[str, Any]:
    found = read_profile(find_definition(name))
    return {
        "runs_on": "file or disk",
        "about": found.about,
        "threads": None,
        "files": None,
        "bytes": found.target_bytes,
        "parameters": {},
        "file": str(found.file),
        "definition": found.text,
    }


def _read_toml(file: Path, settings: Mapping[str, str], given_by: Mapping[str, str]) -> Personality:
    content = _with_base(load_toml(file)[1], file)
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
    steps = [_steps(keys) for keys in flow]
    file_sets = tuple(_file_set(keys) for keys in sets)
    _check_used(content, values, file)
    _check([one for some in steps for one in some], file_sets, file)
    logs = list(dict.fromkeys(one.files for some in steps for one in some if one.is_log))
    operations = tuple(_operation(one, logs) for some in steps for one in some)
    return Personality(
        name=file.stem,
        about=top.text("about", ""),
        file_sets=file_sets,
        groups=(Group(file.stem, threads, operations),),
        parameters=values,
        definition=_digest(content),
    )


def is_filebench(file: Path) -> bool:
    """Say whether a file is filebench's, by its name."""
    return file.suffix == ".f"


def _with_base(content: dict[str, Any], file: Path) -> dict[str, Any]:
    """Return a definition whose files and operations are those of a shipped one, `base`."""
    if "base" not in content:
        return content
    keys = Keys(content, str(file), known=("about", "base", "parameters"))
    base = load_toml(SHIPPED / f"{keys.choice('base', shipped())}.toml")[1]
    own = content.get("parameters", {})
    Keys(own, f"{file}, [parameters]", known=tuple(base["parameters"]))
    return base | {"about": keys.text("about", ""), "parameters": base["parameters"] | own}


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
    mean, shape = (
        int(_size(keys, "mean_size", MOST_BYTES)),
        keys.number("size_shape", low=0, high=1e6, default=0),
    )
    size: Value = mean
    if shape:
        size = RandomValue("gamma", (("mean", mean), ("gamma", shape)), least=1)
    return FileSet(
        name=_plain(keys, "name"),
        count=keys.whole("count", low=1, high=MOST_FILES),
        size=size,
        width=keys.whole("directory_width", low=1, high=1e9, default=1_000_000),
        width_shape=keys.number("directory_shape", low=0, high=1e6, default=0),
        present_ratio=keys.number("present_ratio", low=0, high=1, default=1),
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


@dataclass(frozen=True)
class _Step:
    """One entry of the flow, as the file has it."""

    action: str
    files: str | None
    handle: int
    size_bytes: int
    is_random: bool
    is_direct: bool
    is_sync: bool
    label: str

    @property
    def is_log(self) -> bool:
        """Say whether it appends to a file that stays open."""
        return self.action == "append" and self.files is not None


def _steps(keys: Keys) -> list[_Step]:
    action = keys.choice("do", tuple(ACTIONS))
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
    one = _Step(
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


def _operation(one: _Step, logs: Sequence[str | None]) -> Operation:
    """Return what a step is in a flow; each log has a descriptor behind those of the handles."""
    goes_by_name = one.action in ("stat", "delete")
    is_random_append = one.action == "append" and one.is_random
    fd = HANDLES + 1 + logs.index(one.files) if one.is_log else one.handle
    return Operation(
        kind="appendfilerand" if is_random_append else ACTIONS[one.action],
        label=one.label,
        files=one.files,
        fd=0 if goes_by_name else fd,
        source_fd=fd if one.action == "write_file" else 0,
        size=one.size_bytes,
        is_random=one.action in ("read", "write"),
        is_direct=one.is_direct,
        is_sync=one.is_sync,
        spares_open=one.action == "delete",
        is_data_sync=one.action == "fdatasync",
    )


def _check(flow: Sequence[_Step], file_sets: Sequence[FileSet], file: Path) -> None:
    """Raise InputError for what no single table shows to be wrong."""
    sets = {one.name: one for one in file_sets}
    if len(sets) < len(file_sets):
        raise InputError(f"{file}: two [[files]] have the same name")
    opened: dict[int, FileSet | None] = {}
    for number, one in enumerate(flow, start=1):
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
    one: _Step, sets: Mapping[str, FileSet], opened: Mapping[int, FileSet | None]
) -> tuple[str, str]:
    """Return what is wrong with an operation, nothing if it can be done, and a hint.

    `opened` has the open handles, with the files of one that is for direct I/O.
    """
    hint = problem = ""
    files = opened.get(one.handle) if one.action in MOVES_DATA and one.files is None else None
    if one.files is not None and one.files not in sets:
        problem = f"there are no files '{one.files}'"
        hint = f"[[files]] are named {', '.join(sorted(sets))}"
    elif one.action in ON_HANDLE and one.files is None and one.handle not in opened:
        problem = f"nothing is open as handle {one.handle}"
    elif files is not None and (wrong := _unaligned(one, files)):
        problem = f"{wrong}, which direct I/O refuses"
        hint = f"use multiples of {SECTOR_BYTES} bytes, or leave `direct` out"
    return problem, hint


def _unaligned(one: _Step, files: FileSet) -> str:
    """Return which size is no multiple of a sector, nothing if all are; reads may end early."""
    if one.size_bytes % SECTOR_BYTES:
        return f"calls of {one.size_bytes:,} bytes"
    if one.action in ("append", "write_file"):
        if one.is_random:
            return "calls of a random size"
        if isinstance(files.size, RandomValue) or files.size % SECTOR_BYTES:
            is_drawn = isinstance(files.size, RandomValue)
            drawn = "sizes that are drawn" if is_drawn else f"{files.size:,} bytes each"
            return f"the files '{files.name}' have {drawn}, so that writes end within a sector"
    return ""
