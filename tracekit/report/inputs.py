"""Read what the stages left in the trace folder; the only part of the report that opens files.

Everything here is small: findings, curves and summaries. The report never reads the requests, so
its memory does not depend on the length of the trace.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from tracekit import query
from tracekit.arrow import open_table, read_whole
from tracekit.errors import InputError
from tracekit.metadata import read_object
from tracekit.origin import Outdated, command_of, outdated
from tracekit.store import TraceFolder, command_line
from tracekit.tables import TABLES

Built = TypeVar("Built")
Kept = TypeVar("Kept", dict[str, Any], list[Any])
ADVICE_KEYS = ("headline", "answer", "answers", "base_profile", "nvm_profile")
SUMMARY_KEYS = ("plan", "pace", "engine", "targets", "warnings")


@dataclass(frozen=True)
class Evidence:
    """A table with its origin: the SQL that made it, or the stage that wrote it.

    A figure draws `shown`, such as the rows of one device, or the whole table where it is None.
    """

    name: str
    origin: str
    table: pd.DataFrame
    sql: str = ""
    question: str = ""
    grain: str = ""
    columns: Mapping[str, str] | None = None
    parameters: Mapping[str, int] | None = None
    shown: pd.DataFrame | None = None

    def showing(self, table: pd.DataFrame) -> Evidence:
        """Return the same evidence, of which a figure draws `table`."""
        return replace(self, shown=table)


@dataclass(frozen=True)
class Replay:
    """One run of the replayer: the name of its folder and its summary.json."""

    name: str
    summary: Mapping[str, Any]


class Inputs:
    """The trace folder as the report sees it; a table that no stage has written is None."""

    def __init__(self, folder: TraceFolder) -> None:
        self.folder = folder
        self.info = folder.content
        self.outdated = outdated(folder.path, folder.content)
        """The results of which an input has changed since, by place."""
        self._read = set[str]()

    def built(self, build: Callable[[Inputs], Built]) -> tuple[Built, tuple[Outdated, ...]]:
        """Call what builds a part of the report; return which outdated results it read, too."""
        self._read.clear()
        part = build(self)
        return part, tuple(self.outdated[place] for place in sorted(self._read & {*self.outdated}))

    @property
    def has_file_replays(self) -> bool:
        """Return whether file operations were replayed."""
        return bool(self.folder.files("replays/*/file_completions.parquet"))

    @property
    def has_observed_replays(self) -> bool:
        """Return whether a replay was watched by the kernel's tracer."""
        return bool(self.folder.files("replays/*/observed.parquet"))

    @property
    def has_trace(self) -> bool:
        """Return whether the folder holds a trace, and not only what was measured without one."""
        return self.folder.has("requests")

    def finding(self, name: str) -> Evidence | None:
        """Return the finding of the analysis `name`, such as `traffic/totals`, if it was made."""
        source = query.read(name)
        place = f"findings/{source.table}"
        self._read.add(f"{place}.parquet")
        if not self.folder.has(place):
            return None
        file = self.folder.table(place)
        table = _read_table(file)
        missing = [column for column in source.columns if column not in table.columns]
        if missing:
            raise InputError(
                f"{file} has no column {', '.join(missing)}",
                hint=f"run: {command_line('analyze', self.folder.path)}",
            )
        return of_query(source, table, parameters=_parameters(file))

    @functools.cached_property
    def _database(self) -> query.Database:
        return query.Database(self.folder)

    def computed(self, name: str) -> Evidence:
        """Run the analysis `name` now, on tables that were written after `analyze`."""
        source = query.read(name)
        table = query.run(self._database.connection(), name)
        plain_table = plain(table.to_pandas(integer_object_nulls=True))
        return of_query(source, plain_table, parameters=source.values({}))

    @functools.cached_property
    def failed_checks(self) -> Sequence[Mapping[str, Any]]:
        """The checks of the data that found rows, as `analyze` wrote them down."""
        if not self.folder.has("findings/checks"):
            return ()
        table = _read_table(self.folder.table("findings/checks"))
        return [{str(key): row[key] for key in row} for row in table.to_dict("records")]

    def table(self, place: str, *, command: str) -> Evidence | None:
        """Return a table such as device/device_steps that `tracekit COMMAND` wrote.

        None when it or a column is missing: an older version wrote what there is. InputError for
        such a table that other stages read, too.
        """
        if not self.folder.has(place):
            return None
        self.folder.require(place, made_by=command)
        found = Evidence(
            name=place.rpartition("/")[2],
            origin=f"{place}.parquet of tracekit {command}",
            table=_with_lists(_read_table(self.folder.table(place))),
        )
        return found if _is_current(found) else None

    def simulation(self, name: str, *, command: str) -> Evidence | None:
        """Return a table that `tracekit simulate COMMAND` wrote, as `table` does."""
        return self.table(f"simulations/{name}", command=f"simulate {command}")

    def answer(self, place: str, *needed: str) -> Mapping[str, Any] | None:
        """Return the summary at a place such as device/device.json, or None.

        InputError when it has not the `needed` keys.
        """
        self._read.add(place)
        file = self.folder.file(place)
        hint = f"run: {command_line(command_of(place), self.folder.path)}"
        return _read_json(file, *needed, hint=hint) if file.exists() else None

    def result(self, name: str, *, command: str) -> tuple[Mapping[str, Any], Evidence] | None:
        """Return NAME.json and the table NAME that a command wrote together, or None."""
        answer = self.answer(f"{name}.json", "headline")
        table = self.table(name, command=command)
        return None if answer is None or table is None else (answer, table)

    @property
    def recommendation(self) -> Mapping[str, Any] | None:
        """The content of recommendation.json, or None."""
        self._read.add("recommendation.json")
        return self._recommendation

    @functools.cached_property
    def _recommendation(self) -> Mapping[str, Any] | None:
        return self.answer("recommendation.json", *ADVICE_KEYS)

    @functools.cached_property
    def analyses_run(self) -> Sequence[Sequence[str]]:
        """Return the options of each call of `analyze` of which there are findings."""
        found = (_stored(file, b"asked", []) for file in self.folder.files("findings/*.parquet"))
        return [*map(list, dict.fromkeys(tuple(map(str, words)) for words in found))]

    @functools.cached_property
    def simulations_run(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Return each simulation that was run, and its options."""
        files = self.folder.files("simulations/*.json")
        return [(file.stem, _read_json(file).get("asked", [])) for file in files]

    @functools.cached_property
    def replays(self) -> tuple[Replay, ...]:
        """The replays that left completions, by name, each with its summary."""
        names = [file.parent.name for file in self.folder.files("replays/*/completions.parquet")]
        places = {name: self.folder.file(f"replays/{name}/summary.json") for name in names}
        return tuple(Replay(name, _read_json(places[name], *SUMMARY_KEYS)) for name in names)


def of_query(
    source: query.Query, table: pd.DataFrame, *, parameters: Mapping[str, int]
) -> Evidence:
    """Return the result of a query, with the text that ran."""
    return Evidence(
        name=source.name,
        origin=f"analyzers/{source.name}.sql",
        table=table,
        sql=source.bound(parameters),
        question=source.question,
        grain=source.grain,
        columns=source.columns,
        parameters=parameters,
    )


def _is_current(evidence: Evidence) -> bool:
    (columns,) = (table.columns for table in TABLES if table.name == evidence.name)
    return set(columns.names) <= set(evidence.table.columns)


def _read_table(file: Path) -> pd.DataFrame:
    return plain(read_whole(file).to_pandas(integer_object_nulls=True))


def _with_lists(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with lists in place of arrays, which are written like any other value."""
    chosen = [n for n in table.columns if len(table) and isinstance(table[n].iloc[0], np.ndarray)]
    return table.assign(**{name: [cell.tolist() for cell in table[name]] for name in chosen})


def _parameters(file: Path) -> Mapping[str, int]:
    """Return the values that the query ran with, which `analyze` stores in the table."""
    return _stored(file, b"parameters", {})


def _stored(file: Path, key: bytes, default: Kept) -> Kept:
    """Return what `analyze` stores in a table beside its rows."""
    stored = open_table(file).schema_arrow.metadata or {}
    try:
        value = json.loads(stored[key])
    except (LookupError, ValueError, RecursionError):
        return default
    return value if isinstance(value, type(default)) else default


def plain(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with categories as text, so that grouping never invents empty groups."""
    chosen = [name for name in table.columns if str(table[name].dtype) == "category"]
    return table.astype(dict.fromkeys(chosen, "object"))


def _read_json(file: Path, *needed: str, hint: str = "make it again") -> Mapping[str, Any]:
    content = read_object(file, hint=hint)
    missing = [key for key in needed if key not in content]
    if missing:
        raise InputError(f"{file} has no {', '.join(missing)}", hint=hint)
    return content
