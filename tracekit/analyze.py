"""Run the analyses over a trace folder: each SQL file makes one table in `findings/`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracekit import query
from tracekit.errors import UsageError
from tracekit.metadata import has_values
from tracekit.origin import of_result
from tracekit.store import TraceFolder, changed_folder, write_table
from tracekit.tables import FILE_MAP, MADE_BY

# The order in which they run, and in which their tables are listed.
ANALYSES = (
    "traffic/totals",
    "traffic/mix",
    "traffic/sizes",
    "traffic/merges",
    "traffic/processes",
    "traffic/cgroups",
    "traffic/throughput",
    "latency/btt",
    "latency/latency",
    "latency/q2q",
    "latency/distribution",
    "latency/latency_over_time",
    "latency/latency_heat_map",
    "latency/depth_over_time",
    "latency/depth_at_queue",
    "workload/interarrival",
    "workload/interarrival_percentiles",
    "workload/sequentiality",
    "workload/run_lengths",
    "workload/jumps",
    "workload/commits",
    "workload/commit_intervals",
    "locality/coverage",
    "locality/temperature",
    "locality/hottest",
    "locality/footprint",
    "locality/heat_map",
    "volume/volume_totals",
    "volume/activity",
    "volume/daily_cycle",
    "volume/access_times",
    "volume/skew",
    "locality/named_blocks",
    "locality/hottest_files",
    "locality/hottest_directories",
    "locality/heat_map_files",
)
OF_FILES = ANALYSES[-4:]
"""Left out, unless asked for, where the trace has no map of files."""
OF_CGROUPS = ("traffic/cgroups",)
"""The same where the capture says of no request which control group it is of."""
OF_VOLUMES = ("volume/volume_totals", "volume/access_times")
"""The same where an earlier version has classified the trace."""

# Each returns no row when the tables are as they should be.
CHECKS = (
    "checks/request_ids",
    "checks/queue_order",
    "checks/time_order",
    "checks/known_words",
    "checks/merge_targets",
    "checks/block_touches",
    "checks/new_blocks",
)


CHECKS_TABLE = {
    "name": "check that failed",
    "question": "what it asks of the tables",
    "failing_count": "rows that fail it",
    "example_id": "request_id of one of them, null where none can be named",
}


@dataclass(frozen=True)
class Finding:
    """One table that was written."""

    name: str
    table: str
    row_count: int
    elapsed_ns: int


@dataclass(frozen=True)
class Failure:
    """One check that found rows which contradict the contract of the tables."""

    name: str
    question: str
    failing_count: int
    example_id: int | None


@dataclass(frozen=True)
class Analysis:
    """What one run of the analyses wrote and found wrong."""

    findings: tuple[Finding, ...]
    failures: tuple[Failure, ...]
    left_out: tuple[str, ...] = ()
    """What needs tables that an earlier version's `classify` did not write."""


def analyze(
    folder: TraceFolder,
    *,
    only: Sequence[str] = (),
    parameters: Mapping[str, int] | None = None,
    memory_mib: int = query.DEFAULT_MEMORY_MIB,
    on_start: Callable[[str, int, int], None] | None = None,
) -> Analysis:
    """Run the analyses named in `only`, or all and the checks, and write a table for each.

    The findings change as a whole, when all have run; those of other analyses stay.
    `parameters` go to every query that has them. `on_start` is told the name, the number from 0 and
    the total before each query. The database keeps within `memory_mib`. Raises UsageError for an
    unknown name or parameter and InputError for a table that is missing, both before anything is
    written.
    """
    names = [_full_name(name) for name in only] or possible(folder)
    checks = () if only else CHECKS
    values = _split(names, parameters or {})
    tables = dict.fromkeys(table for name in (*names, *checks) for table in query.read(name).reads)
    for table in tables:
        folder.require(table, made_by=MADE_BY[table])
    findings: list[Finding] = []
    failures: list[Failure] = []
    made = of_result(folder.path, "findings/", info=folder.content, result={})
    with (
        changed_folder(folder.path / "findings") as place,
        query.connect(folder, memory_mib=memory_mib, only=tables) as connection,
    ):
        for number, name in enumerate((*names, *checks)):
            if on_start is not None:
                on_start(name, number, len(names) + len(checks))
            if name in values:
                findings.append(_find(connection, place, name, values=values[name], made=made))
            else:
                failures += _check(connection, name)
        if checks:
            write_table(place / "checks.parquet", _checks_table(failures))
    left_out = () if only or folder.has("intervals") else OF_VOLUMES
    return Analysis(tuple(findings), tuple(failures), left_out)


def possible(folder: TraceFolder) -> list[str]:
    """Return the analyses of which the trace has what they need, in their order."""
    has_names = folder.has(FILE_MAP)
    has_cgroups = has_values(folder.require("requests", made_by="parse"), "cgroup")
    has_volumes = folder.has("intervals")
    present = zip(
        (OF_FILES, OF_CGROUPS, OF_VOLUMES), (has_names, has_cgroups, has_volumes), strict=True
    )
    absent = {name for names, is_there in present if not is_there for name in names}
    return [name for name in ANALYSES if name not in absent]


def _full_name(name: str) -> str:
    """Return the analysis that `name` means: `traffic/totals` or only `totals`."""
    known = {analysis.rpartition("/")[2]: analysis for analysis in ANALYSES}
    if name in ANALYSES or name in known:
        return known.get(name, name)
    raise UsageError(f"there is no analysis '{name}'", hint=f"there are: {', '.join(known)}")


def _split(names: Sequence[str], given: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Give each query the parameters that it has, with its defaults for the others."""
    known = {name: {parameter.name for parameter in query.read(name).parameters} for name in names}
    possible = set().union(*known.values())
    if unknown := sorted(given.keys() - possible):
        raise UsageError(
            f"none of these analyses has a parameter '{unknown[0]}'",
            hint=f"their parameters are: {', '.join(sorted(possible)) or 'none'}",
        )
    return {
        name: query.read(name).values({key: given[key] for key in keys & given.keys()})
        for name, keys in known.items()
    }


def _find(
    connection: Any, place: Path, name: str, *, values: dict[str, int], made: Mapping[str, Any]
) -> Finding:
    begin_ns = time.monotonic_ns()
    described = query.read(name)
    table = _describe(query.run(connection, name, **values), described, values=values, made=made)
    write_table(place / f"{described.table}.parquet", table)
    return Finding(name, described.table, table.num_rows, time.monotonic_ns() - begin_ns)


def _describe(
    table: Any, described: query.Query, *, values: Mapping[str, int], made: Mapping[str, Any]
) -> Any:
    """Store in the table which query made it, with which values, and what its columns mean."""
    fields = [
        field.with_metadata({"meaning": described.columns[field.name]}) for field in table.schema
    ]
    origin = {
        "query": described.name,
        "question": described.question,
        "grain": described.grain,
        "parameters": json.dumps(values),
        **{key: json.dumps(value) for key, value in made.items()},
    }
    return table.cast(pa.schema(fields, metadata=origin))


def _check(connection: Any, name: str) -> list[Failure]:
    rows = query.run(connection, name).to_pylist()
    question = query.read(name).question
    return [Failure(name, question, row["failing_count"], row["example_id"]) for row in rows]


def _checks_table(failures: Sequence[Failure]) -> Any:
    kinds = {"failing_count": pa.int64(), "example_id": pa.int64()}
    fields = [
        pa.field(name, kinds.get(name, pa.string()), metadata={"meaning": meaning})
        for name, meaning in CHECKS_TABLE.items()
    ]
    return pa.Table.from_pylist([vars(failure) for failure in failures], pa.schema(fields))
