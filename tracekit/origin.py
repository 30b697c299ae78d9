"""What a result was made from: its command's options, and what it read, to find newer inputs."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracekit.arrow import open_table
from tracekit.asked import asked
from tracekit.errors import InputError
from tracekit.escapes import operand, shell_line
from tracekit.safe_open import check_inside, open_inside, read_regular
from tracekit.tables import FILE_MAP
from tracekit.version import __version__

ROLES = "roles"
"""Stands for what `classify` wrote: roles, blocks and their temperatures, names of files."""
_MADE_FROM, _ASKED, _STAMP = "made_from", "asked", "stamp"
_TOOL = "tracekit"
"""Stands for the version of this program."""
_DIGITS = 16
_OF_NO_TRACE = ("device/device.json", "counters/counters.json", "simulations/buffer.json")
_OF_ANSWER = (
    *(f"simulations/{name}.json" for name in ("endurance", "purchase", "rivals", "sensitivity")),
    "verification.json",
)
_FILES = ("--files", "--layout", "--profiles", "--what-if")
_COMMANDS = {
    "recommendation.json": "recommend",
    "verification.json": "verify-placement",
    "comparison.json": "compare",
    "fidelity.json": "fit",
    "device/device.json": "characterize-device",
    "counters/counters.json": "counters",
    "files/sweep.json": "sweep",
    ROLES: "classify",
}


@dataclass(frozen=True)
class Outdated:
    """A result, by its place, an input of it that has changed since, and the command to rerun."""

    place: str
    newer: str
    command: str

    @property
    def text(self) -> str:
        """Say what is not of one time."""
        what = (
            "roles or temperatures of blocks that the trace no longer has: classify ran later"
            if self.newer == ROLES
            else f"an earlier {self.newer}"
        )
        subject = "the roles were" if self.place == ROLES else f"{self.place} was"
        return f"{subject} made from {what}"


def of_result(
    folder: Path, place: str, *, info: Mapping[str, Any], result: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what is kept with a result: what it was made from, and the options of its command."""
    words = _with_whole_paths(asked(command_of(place).rpartition(" ")[2].replace("-", "_")))
    made_from: dict[str, Any] = {} if place in _OF_NO_TRACE else {ROLES: _roles(info)}
    made_from[_TOOL] = __version__
    for name in (*_inputs(folder, place, result), *_given(words)):
        made_from[name] = _stamp(folder / name)
    return {_MADE_FROM: made_from, **({_ASKED: words} if words and _ASKED not in result else {})}


def of_roles(folder: Path) -> dict[str, Any]:
    """Return what `classify` keeps in trace.json for all that is made from its tables."""
    found = hashlib.sha256()
    for name in ("requests", "blocks", FILE_MAP):
        with suppress(FileNotFoundError):
            with os.fdopen(open_inside(folder, f"{name}.parquet"), "rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
            found.update(name.encode())
    words = _with_whole_paths(asked("classify"))
    made_from = {_TOOL: __version__, **{name: _stamp(folder / name) for name in _given(words)}}
    return {_STAMP: found.hexdigest()[:_DIGITS], _MADE_FROM: made_from, _ASKED: words}


def without_stamp(classification: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `classify` kept, for tables that are being changed: no result is of these."""
    return {**classification, _STAMP: ""}


def _inputs(folder: Path, place: str, result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the places of the results that a result was made from."""
    if place in _OF_ANSWER:
        yield "recommendation.json"
    if place == "comparison.json":
        for file in sorted(folder.glob("replays/*/summary.json")):
            name = file.parent.name
            if {name, name.rpartition(".")[0]} & {*result["names"]}:
                yield f"replays/{name}/summary.json"


def _with_whole_paths(words: Sequence[str]) -> list[str]:
    """Return the words, of which those that name files do so from everywhere."""
    before = ("", *words)
    return [
        os.path.abspath(word) if option in _FILES else word
        for option, word in zip(before, words, strict=False)
    ]


def _given(words: Sequence[str]) -> Iterator[str]:
    """Yield the files that options name."""
    return (word for option, word in itertools.pairwise(words) if option in _FILES)


def words_of(content: Any) -> list[str] | None:
    """Return the options of the command that made a result, None where it does not say them."""
    words = content.get(_ASKED) if isinstance(content, Mapping) else None
    is_known = isinstance(words, list) and all(isinstance(word, str) for word in words)
    return words if is_known else None


def outdated(folder: Path, info: Mapping[str, Any], *, only: str = "") -> dict[str, Outdated]:
    """Return the results in a trace folder, or one, of which an input has changed, by place."""
    found = {}
    of_one = _finding if only.startswith("findings/") else _json_of
    for place, content in of_one(folder, only) if only else _results(folder, info):
        made_from = content.get(_MADE_FROM)
        if not isinstance(made_from, dict):
            continue  # of an earlier version: nothing is known
        newer = [name for name in made_from if _has_changed(folder, info, name, made_from[name])]
        if newer:
            words = words_of(content) or words_of({_ASKED: content.get("names")}) or []
            command = [*command_of(place).split(), operand(str(folder)), *words]
            found[place] = Outdated(place, newer[0], shell_line(["tracekit", *command]))
    return found


def is_current(folder: Path, info: Mapping[str, Any], *, place: str, words: Sequence[str]) -> bool:
    """Say whether a result is there, was made with these options, and no input has changed since.

    That of another version of this program is not current. How much memory its command had changes
    no result. `place` is that of a finding, of a JSON file, or ROLES.
    """
    if place == ROLES:
        found = iter([(place, info.get("classification"))])
    else:
        found = (_finding if place.startswith("findings/") else _json_of)(folder, place)
    _, content = next(found, (place, None))
    if not isinstance(content, Mapping):
        return False
    made_from = content.get(_MADE_FROM)
    if not isinstance(made_from, dict) or (place == ROLES and not content.get(_STAMP)):
        return False
    asked_before, asks = (
        [
            word
            for option, word in itertools.pairwise(("", *one))
            if "--memory" not in (option, word)
        ]
        for one in (words_of(content) or (), _with_whole_paths(words))
    )
    is_same = made_from.get(_TOOL) == __version__ and not any(
        _has_changed(folder, info, name, made_from[name]) for name in made_from
    )
    return asks == asked_before and is_same


def _results(folder: Path, info: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each result that says what it was made from; who reads it reports what is wrong."""
    yield ROLES, info["classification"] if isinstance(info.get("classification"), dict) else {}
    simulations = (f"simulations/{file.name}" for file in folder.glob("simulations/*.json"))
    for place in (*({*_COMMANDS} - {ROLES}), *sorted(simulations)):
        yield from _json_of(folder, place)
    for table in sorted(folder.glob("findings/*.parquet")):
        yield from _finding(folder, f"findings/{table.name}")


def _finding(folder: Path, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    with suppress(OSError, ValueError, RecursionError, InputError):
        os.close(open_inside(folder, place))
        stored = open_table(folder / place).schema_arrow.metadata or {}
        kept = {key: stored.get(key.encode(), b"null") for key in (_MADE_FROM, _ASKED)}
        yield place, {key: json.loads(text) for key, text in kept.items()}


def _json_of(folder: Path, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    with suppress(OSError, ValueError, RecursionError, InputError):
        content = json.loads(read_regular(check_inside(folder, place)))
        if isinstance(content, dict):
            yield place, content


def _has_changed(folder: Path, info: Mapping[str, Any], name: str, stamp: Any) -> bool:
    if name == _TOOL:
        return False
    if name == ROLES:
        return bool(stamp != _roles(info))
    now = _stamp(folder / name)
    return now is not None and now != stamp


def _roles(info: Mapping[str, Any]) -> Any:
    classified = info.get("classification")
    return classified.get(_STAMP) if isinstance(classified, Mapping) else None


def _stamp(file: Path) -> str | None:
    """Return the digest of a small regular file, None where it is not there."""
    try:
        return hashlib.sha256(read_regular(file)).hexdigest()[:_DIGITS]
    except (OSError, ValueError, InputError):
        return None


def command_of(place: str) -> str:
    """Return the command that makes the result at a place, such as `simulate tiers`."""
    kind, _, name = place.rpartition("/")
    if kind == "simulations":
        return f"simulate {name.removesuffix('.json')}"
    return "analyze" if kind == "findings" else _COMMANDS.get(place, "")
