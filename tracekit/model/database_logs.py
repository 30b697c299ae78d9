"""Which files are logs that databases write, by rules of a file that users extend."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from tracekit.errors import InputError
from tracekit.tables import FILE_EXTENTS
from tracekit.toml_files import Place, check_keys, load_toml

RULES = Path(__file__).with_name("database_logs.toml")
_PARTS = re.compile(r"\*|\[0-9\]|[^*\[]+|\[")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class LogRule(msgspec.Struct, frozen=True):
    """The log of a database: patterns of its files, and of what lies beside them."""

    files: tuple[str, ...]
    beside: tuple[str, ...] = ()
    setting: str = ""


def load_rules(given: Path | None = None) -> dict[str, LogRule]:
    """Return the rules by name, with those of a user's file; InputError names what is wrong."""
    rules: dict[str, LogRule] = {}
    for file in (RULES, given) if given else (RULES,):
        text, content = load_toml(file)
        for name, entry in content.items():
            place = Place(file, text).at(name)
            if not _NAME.fullmatch(name) or not isinstance(entry, dict):
                raise InputError(f"{place}: no rule", hint="a rule is [name], then files = [...]")
            check_keys(entry, LogRule.__struct_fields__, place=place)
            try:
                rules[name] = msgspec.convert(entry, LogRule)
            except msgspec.ValidationError as error:
                raise InputError(f"{place}: {error}", hint=f"see {RULES}") from None
            if not rules[name].files or not all(rules[name].files):
                raise InputError(f"{place}: files are no patterns", hint=f"see {RULES}")
    return rules


def folder_of(path: str, rule: LogRule | None) -> str:
    """Return the folder of the database whose log the file is: that in which a pattern begins.

    A file may also lie below what a pattern matches. "": no pattern says, as for a user's own rule.
    """
    while rule and path.strip("/"):
        depths = [one.count("/") for one in rule.files if re.search(expression(one), path)]
        if depths:
            return "/".join(path.split("/")[: -1 - max(depths)]) or "/"
        path = posixpath.dirname(path)
    return ""


def expression(pattern: str) -> str:
    """Return a regular expression for the end of a path, with a group for each `*`."""
    return f"(?:^|/){_words(pattern)}$"


def _words(pattern: str) -> str:
    known = {"*": "([^/]*)", "[0-9]": "[0-9]"}
    return "".join(known.get(one) or re.escape(one) for one in _PARTS.findall(pattern))


def with_logs(table: Any, rules: dict[str, LogRule]) -> Any:
    """Return the table of file extents with the log that each file is; the first rule decides."""
    column = table.column("path").combine_chunks().dictionary_encode()
    paths = column.dictionary
    found: dict[int, str] = {}
    for name, rule in rules.items():
        for number in _matches(paths, rule):
            found.setdefault(number, name)
    logs = pa.array([found.get(number) for number in range(len(paths))], pa.string())
    field = FILE_EXTENTS.field("log")
    place = table.schema.get_field_index("log")
    return table.set_column(place, field, logs.take(column.indices).cast(field.type))


def _matches(paths: Any, rule: LogRule) -> Iterable[int]:
    import pyarrow.compute as pc

    for pattern in rule.files:
        hits = pc.indices_nonzero(pc.match_substring_regex(paths, expression(pattern)))
        if not rule.beside:
            yield from hits.to_pylist()
            continue
        words = re.compile(expression(pattern))
        asked: dict[str, list[int]] = {}
        for number in hits.to_pylist():
            path = paths[number].as_py()
            match = words.search(path)
            text = (match.groups() or ("",))[0] if match else ""
            for one in rule.beside:
                other = posixpath.join(posixpath.dirname(path), one.replace("{}", text))
                asked.setdefault(other, []).append(number)
        yield from _accompanied(paths, asked, count=len(rule.beside))


def _accompanied(paths: Any, asked: dict[str, list[int]], *, count: int) -> Iterable[int]:
    """Yield the files beside which all others of so many are that were asked for."""
    import pyarrow.compute as pc

    found: Counter[int] = Counter()
    for path, numbers in asked.items():
        folder, name = posixpath.split(path)
        pattern = f"^{re.escape(folder)}/{_words(name)}$"
        if pc.any(pc.match_substring_regex(paths, pattern)).as_py():
            found.update(numbers)
    return sorted(number for number, known in found.items() if known == count)
