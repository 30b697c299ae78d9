"""The stage `compare`: latency by role and operation and elapsed time of two or more replays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tracekit import query
from tracekit.compare.confidence import mean_of, ratio_of
from tracekit.compare.words import is_same_work, says
from tracekit.contract import read_object
from tracekit.errors import UsageError
from tracekit.schema.comparison import COMPARISON
from tracekit.store import TraceFolder, write_json, write_table

if TYPE_CHECKING:
    import pandas as pd

TABLE = "comparison"
RESULT = "comparison.json"
TRACE = "trace"
MEASURES = ("avg", "p50", "p99")
ELAPSED = ("elapsed", "all", "all")
_REPEAT = re.compile(r"(?P<name>.+)\.(?P<number>[1-9]\d*)")

Key = tuple[str, str, str]
"""Measure, role, operation."""


@dataclass(frozen=True)
class Candidate:
    """One name to compare, and the replays that are its repeats; `trace` has none."""

    name: str
    replays: tuple[str, ...]


def compare(folder: TraceFolder, names: Sequence[str]) -> dict[str, Any]:
    """Write comparison.parquet and comparison.json; return the latter's content.

    `names` are replays, or names whose repeats are NAME.1, NAME.2 and so on, or `trace`; the first
    is what the others are compared with.
    """
    candidates = choose(folder, names)
    with query.connect(folder) as connection:
        replayed = query.run(connection, "replay/replayed").to_pandas()
        traced = query.run(connection, "replay/traced").to_pandas()
    replayed = replayed[replayed["measure"] == "service"]
    first = next((c.replays[0] for c in candidates if c.replays), None)
    values = [
        _replay_values(folder, candidate, replayed)
        if candidate.replays
        else _trace_values(traced[traced["replay"] == first])
        for candidate in candidates
    ]
    rows = list(_rows(candidates, values, _work(candidates, values)))
    result = {
        "names": [candidate.name for candidate in candidates],
        "replays": {candidate.name: list(candidate.replays) for candidate in candidates},
        "headline": says(rows, [candidate.name for candidate in candidates]),
    }
    write_table(folder.table(TABLE), _table(rows))
    write_json(folder.path / RESULT, result)
    return result


def choose(folder: TraceFolder, names: Sequence[str]) -> list[Candidate]:
    """Find the replays of each name; raise UsageError for one that has none."""
    present = sorted(
        place.parent.name for place in folder.path.glob("replays/*/completions.parquet")
    )
    if len(set(names)) != len(names):
        raise UsageError("a name comes twice: each is compared with the first")
    if len(names) < 2:
        raise UsageError(
            f"{len(names)} name to compare: name two or more",
            hint=f"there are: {', '.join([TRACE, *present])}",
        )
    return [_candidate(name, present) for name in names]


def _candidate(name: str, present: Sequence[str]) -> Candidate:
    if name == TRACE and TRACE not in present:
        return Candidate(name, ())
    if name in present:
        return Candidate(name, (name,))
    found = [one for one in present if (m := _REPEAT.fullmatch(one)) and m["name"] == name]
    if not found:
        raise UsageError(
            f"there is no replay '{name}'",
            hint=f"there are: {', '.join([TRACE, *present])}",
        )
    return Candidate(name, tuple(sorted(found, key=lambda one: int(one.rpartition(".")[2]))))


Values = Mapping[Key, list[tuple[float, int]]]
"""The time of each repeat, and of how many requests."""


def _replay_values(folder: TraceFolder, candidate: Candidate, times: pd.DataFrame) -> Values:
    found: dict[Key, list[tuple[float, int]]] = {}
    for replay in candidate.replays:
        file = folder.path / "replays" / replay / "summary.json"
        summary = read_object(file, hint="replay again")
        elapsed = float(summary["timing"]["elapsed_ns"])
        _add(found, ELAPSED, elapsed, int(summary["counts"]["done"]))
        _add_services(found, times[times["replay"] == replay])
    return found


def _trace_values(times: pd.DataFrame) -> Values:
    found: dict[Key, list[tuple[float, int]]] = {}
    if len(times):
        elapsed = float(times["last_ns"].max() - times["first_ns"].min())
        _add(found, ELAPSED, elapsed, int(times["request_count"].sum()))
    _add_services(found, times)
    return found


def _add_services(found: dict[Key, list[tuple[float, int]]], times: pd.DataFrame) -> None:
    for row in times.to_dict("records"):
        for measure in MEASURES:
            key = (f"service_{measure}", str(row["role"]), str(row["operation"]))
            _add(found, key, float(row[f"time_{measure}_ns"]), int(row["request_count"]))


def _add(found: dict[Key, list[tuple[float, int]]], key: Key, value: float, count: int) -> None:
    found.setdefault(key, []).append((value, count))


def _work(candidates: Sequence[Candidate], values: Sequence[Values]) -> list[list[int]]:
    """Return how many requests each repeat did.

    What is counted of the trace is that of the first replay: in the trace some were merged, so that
    its own number is another one.
    """
    done = [[count for _, count in mine.get(ELAPSED, [])] for mine in values]
    first = next(
        (did for candidate, did in zip(candidates, done, strict=True) if candidate.replays), []
    )
    return [
        did if candidate.replays else first[:1]
        for candidate, did in zip(candidates, done, strict=True)
    ]


def _rows(
    candidates: Sequence[Candidate], values: Sequence[Values], work: Sequence[Sequence[int]]
) -> Iterator[dict[str, Any]]:
    for candidate, mine, did in zip(candidates, values, work, strict=True):
        for (measure, role, operation), pairs in sorted(mine.items()):
            times = [time for time, _ in pairs]
            first = values[0].get((measure, role, operation), [])
            can_compare = measure != "elapsed" or is_same_work([*did, *work[0]])
            ratio = ratio_of(times, [time for time, _ in first]) if first and can_compare else None
            mean = mean_of(times)
            yield {
                "name": candidate.name,
                "measure": measure,
                "role": role,
                "operation": operation,
                "repeats": len(times),
                "request_count": pairs[0][1],
                "time_ns": mean.mean,
                "time_low_ns": mean.low,
                "time_high_ns": mean.high,
                "ratio": None if ratio is None else ratio.mean,
                "ratio_low": None if ratio is None else ratio.low,
                "ratio_high": None if ratio is None else ratio.high,
            }


def _table(rows: Sequence[Mapping[str, Any]]) -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist([dict(row) for row in rows], COMPARISON)


def read_rows(folder: TraceFolder) -> list[dict[str, Any]]:
    """Return the rows of comparison.parquet."""
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(folder.table(TABLE)).to_pylist()
    return rows
