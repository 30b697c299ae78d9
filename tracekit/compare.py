"""The stage `compare`: latency by role and operation and elapsed time of two or more replays."""

from __future__ import annotations

import math
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from tracekit import query
from tracekit.arrow import read_whole
from tracekit.errors import UsageError
from tracekit.metadata import Record, read_object, validate
from tracekit.store import TraceFolder, write_results
from tracekit.tables import COMPARISON
from tracekit.units import format_duration

if TYPE_CHECKING:
    import pandas as pd


LEVEL = 0.95
SAME = 1e-9  # logarithms that differ by less are of the same time


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % confidence interval; the ends are None where nothing was repeated."""

    mean: float
    low: float | None
    high: float | None


def mean_of(values: Sequence[float]) -> Interval:
    """Return the mean of times of repeats and its interval by Student's t, as far as times go.

    The low end is at least 0: few repeats with much spread would put it below.
    """
    from scipy import stats

    mean = float(np.mean(values))
    if len(values) < 2:
        return Interval(mean, None, None)
    error = float(stats.sem(values))
    if error == 0:
        return Interval(mean, mean, mean)
    low, high = stats.t.interval(LEVEL, len(values) - 1, loc=mean, scale=error)
    return Interval(mean, max(float(low), 0.0), float(high))


def ratio_of(values: Sequence[float], to: Sequence[float]) -> Interval | None:
    """Return the ratio of two groups of repeats, and its interval by Welch's t of logarithms.

    The ratio is that of the geometric means. None when a time is 0, of which nothing is a multiple.
    """
    from scipy import stats

    if min(*values, *to) <= 0:
        return None
    mine, other = np.log(values), np.log(to)
    ratio = math.exp(float(mine.mean() - other.mean()))
    if len(values) < 2 or len(to) < 2:
        return Interval(ratio, None, None)
    if max(np.ptp(mine), np.ptp(other)) < SAME:
        return Interval(ratio, ratio, ratio)
    with warnings.catch_warnings():
        # It warns where one of the groups does not spread: its part of the error is then nothing.
        warnings.simplefilter("ignore", RuntimeWarning)
        found = stats.ttest_ind(mine, other, equal_var=False).confidence_interval(LEVEL)
    return Interval(ratio, math.exp(found.low), math.exp(found.high))


MANY_TIMES = 2.0
SAME_WORK = 0.01
"""Share of the requests by which runs may differ, such as by some that failed."""
Row = Mapping[str, Any]


def is_same_work(counts: Sequence[int]) -> bool:
    """Say whether runs of so many requests did the same, so that their lengths can be compared."""
    return not counts or max(counts) - min(counts) <= SAME_WORK * max(counts)


def describe(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """Return a sentence on the elapsed time of each name, and one on its service times."""
    found = [sentence for name in names[1:] for sentence in _of(rows, name, names[0])]
    has_bands = any(row["ratio_low"] is not None and row["name"] != names[0] for row in rows)
    return [*found, "In brackets: 95 % confidence, over the repeats."] if has_bands else found


def table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of a table for the terminal: mean service times, then elapsed times."""
    lines = [f"{'':<30}{'requests':>12}{'time':>14}{'95 %':>26}{'ratio':>9}"]
    for row in rows:
        if row["measure"] not in ("elapsed", "service_avg"):
            continue
        what = "elapsed" if row["measure"] == "elapsed" else _whose(row)
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
        ends = [row[f"time_{end}_ns"] for end in ("low", "high")]
        band = "" if None in ends else " to ".join(map(format_duration, ends))
        lines.append(
            f"{row['name'] + ' ' + what:<30}{row['request_count']:>12,}"
            f"{format_duration(row['time_ns']):>14}{band:>26}{ratio:>9}"
        )
    return lines


def _whose(row: Row) -> str:
    return f"{row['role']} {row['operation']}"


def _of(rows: Sequence[Row], name: str, first: str) -> list[str]:
    services = [
        row
        for row in rows
        if (row["name"], row["measure"]) == (name, "service_avg") and row["ratio"] is not None
    ]
    found = _of_lengths(rows, name, first)
    if changed := [f"{_whose(row)} {_change(row)}" for row in services if _is_sure(row)]:
        found.append(f"Mean service time of {name} against {first}: {', '.join(changed)}.")
    if unsure := [_whose(row) for row in services if not _is_sure(row)]:
        found.append(f"No difference beyond the spread of the repeats: {', '.join(unsure)}.")
    return found


def _of_lengths(rows: Sequence[Row], name: str, first: str) -> list[str]:
    of = {row["name"]: row for row in rows if row["measure"] == "elapsed"}
    if name not in of or first not in of:
        return []
    mine, other = of[name], of[first]
    took = f"{name} took {format_duration(mine['time_ns'])}"
    if mine["ratio"] is not None:
        return [f"{took}: against {first} {_change(mine)}."]
    if is_same_work([mine["request_count"], other["request_count"]]):
        return []
    return [
        f"{took} for {mine['request_count']:,} requests, {first}"
        f" {format_duration(other['time_ns'])} for {other['request_count']:,}: not the same work,"
        " so neither these times nor the service times below say which is faster."
    ]


def _is_sure(row: Row) -> bool:
    """Say whether the interval of the ratio leaves out 1; without repeats nobody can tell."""
    return row["ratio_low"] is None or not row["ratio_low"] <= 1 <= row["ratio_high"]


def _change(row: Row) -> str:
    """Say by how much it changed, with the interval of that in brackets."""
    low, high, ratio = row["ratio_low"], row["ratio_high"], row["ratio"]
    if ratio >= MANY_TIMES:
        band = "" if low is None else f" ({low:.2f} to {high:.2f})"
        return f"{ratio:.2f} times as long{band}"
    word = "less" if ratio < 1 else "more"
    if low is None:
        return f"{abs(1 - ratio):.1%} {word}"
    ends = sorted((1 - low, 1 - high)) if ratio < 1 else sorted((low - 1, high - 1))
    return f"{abs(1 - ratio):.1%} {word} ({ends[0]:.1%} to {ends[1]:.1%})"


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
    found = [candidate.name for candidate in candidates]
    comparison = Comparison(
        names=found,
        replays={candidate.name: list(candidate.replays) for candidate in candidates},
        headline=describe(rows, found),
    )
    result: dict[str, Any] = msgspec.to_builtins(comparison)
    table = pa.Table.from_pylist(rows, COMPARISON)
    write_results(folder, RESULT, result=result, tables={TABLE: table})
    return result


def choose(folder: TraceFolder, names: Sequence[str]) -> list[Candidate]:
    """Find the replays of each name; raise UsageError for one that has none."""
    present = sorted(place.parent.name for place in folder.files("replays/*/completions.parquet"))
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


class _Timing(Record):
    elapsed_ns: int


class _Counts(Record):
    done: int


class _Run(Record):
    """What is compared of a replay's summary.json."""

    timing: _Timing
    counts: _Counts


class Comparison(Record):
    """The content of comparison.json."""

    names: list[str]
    replays: dict[str, list[str]]
    headline: list[str]


Values = dict[Key, list[tuple[float, int]]]
"""The time of each repeat, and of how many requests."""


def _replay_values(folder: TraceFolder, candidate: Candidate, times: pd.DataFrame) -> Values:
    found: Values = defaultdict(list)
    for replay in candidate.replays:
        file = folder.file(f"replays/{replay}/summary.json")
        content = read_object(file, hint="replay again")
        run = validate(content, _Run, file=file, hint="replay again")
        found[ELAPSED].append((float(run.timing.elapsed_ns), run.counts.done))
        _add_services(found, times[times["replay"] == replay])
    return found


def _trace_values(times: pd.DataFrame) -> Values:
    found: Values = defaultdict(list)
    if len(times):
        elapsed = float(times["last_ns"].max() - times["first_ns"].min())
        found[ELAPSED].append((elapsed, int(times["request_count"].sum())))
    _add_services(found, times)
    return found


def _add_services(found: Values, times: pd.DataFrame) -> None:
    for row in times.to_dict("records"):
        for measure in MEASURES:
            key = (f"service_{measure}", str(row["role"]), str(row["operation"]))
            found[key].append((float(row[f"time_{measure}_ns"]), int(row["request_count"])))


def _work(candidates: Sequence[Candidate], values: Sequence[Values]) -> list[list[int]]:
    """Return how many requests each repeat did.

    What is counted of the trace is that of the first replay: in the trace some were merged, so that
    its own number is another one.
    """
    done = [[count for _, count in mine.get(ELAPSED, [])] for mine in values]
    pairs = list(zip(candidates, done, strict=True))
    first = next((did for candidate, did in pairs if candidate.replays), [])
    return [did if candidate.replays else first[:1] for candidate, did in pairs]


def _rows(
    candidates: Sequence[Candidate], values: Sequence[Values], work: Sequence[Sequence[int]]
) -> Iterator[dict[str, Any]]:
    for candidate, mine, did in zip(candidates, values, work, strict=True):
        for key, pairs in sorted(mine.items()):
            times = [time for time, _ in pairs]
            first = [time for time, _ in values[0].get(key, [])]
            can_compare = key[0] != "elapsed" or is_same_work([*did, *work[0]])
            ratio = ratio_of(times, first) if first and can_compare else None
            mean = mean_of(times)
            yield {
                "name": candidate.name,
                **dict(zip(("measure", "role", "operation"), key, strict=True)),
                "repeats": len(times),
                "request_count": pairs[0][1],
                "time_ns": mean.mean,
                "time_low_ns": mean.low,
                "time_high_ns": mean.high,
                "ratio": None if ratio is None else ratio.mean,
                "ratio_low": None if ratio is None else ratio.low,
                "ratio_high": None if ratio is None else ratio.high,
            }


def read_rows(folder: TraceFolder) -> list[dict[str, Any]]:
    """Return the rows of comparison.parquet."""
    rows: list[dict[str, Any]] = read_whole(folder.table(TABLE)).to_pylist()
    return rows
