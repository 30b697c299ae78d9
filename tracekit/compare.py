"""The stage `compare`: latency by role and operation and elapsed time of two or more replays."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from tracekit import query
from tracekit.arrow import read_whole
from tracekit.errors import UsageError
from tracekit.machine_state import MachineState, differences
from tracekit.metadata import Record, TraceWarning, read_object, validate
from tracekit.repeats import (
    LEAST_REPEATS,
    LEVEL,
    POWER,
    Ratio,
    Turn,
    detectable_ratio,
    holm,
    mean_of,
    paired_ratio,
    ratio_of,
    repeats_needed,
)
from tracekit.store import TraceFolder, write_results
from tracekit.tables import COMPARISON
from tracekit.units import format_duration

if TYPE_CHECKING:
    import pandas as pd


MANY_TIMES = 2.0
SMALL = 0.01
"""Difference of which is said how many repeats find it."""
DIFFERENT, NONE_FOUND, CANNOT_TELL = "different", "none found", "cannot tell"
JUDGED = ("pairs", "p_value", "p_corrected", "verdict", "detectable_ratio", "repeats_needed")
UNSURE = {
    NONE_FOUND: "No difference beyond the spread of the repeats",
    CANNOT_TELL: "Too few repeats to tell a difference from chance",
}
SAME_WORK = 0.01
"""Share of the requests by which runs may differ, such as by some that failed."""
Row = Mapping[str, Any]


def is_same_work(counts: Sequence[int]) -> bool:
    """Say whether runs of so many requests did the same, so that their lengths can be compared."""
    return not counts or max(counts) - min(counts) <= SAME_WORK * max(counts)


def describe(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """Return a sentence on the elapsed time of each name, and those on its service times."""
    found = [sentence for name in names[1:] for sentence in _of(rows, name, names[0])]
    has_bands = any(row["ratio_low"] is not None and row["name"] != names[0] for row in rows)
    return [*found, "In brackets: 95% confidence, over the repeats."] if has_bands else found


def table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of a table for the terminal: mean service times, then elapsed times.

    p-values stand there once something was repeated: raw, and corrected for the number of rows.
    """
    has_tests = any(row["p_value"] is not None for row in rows)
    head = f"{'':<30}{'requests':>12}{'time':>14}{'95%':>26}{'ratio':>9}"
    lines = [f"{head}{'p':>9}{'corrected':>11}  verdict" if has_tests else head]
    for row in rows:
        if row["measure"] not in SHOWN:
            continue
        what = "elapsed" if row["measure"] == "elapsed" else _whose(row)
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3f}"
        ends = [row[f"time_{end}_ns"] for end in ("low", "high")]
        band = "" if None in ends else " to ".join(map(format_duration, ends))
        line = (
            f"{row['name'] + ' ' + what:<30}{row['request_count']:>12,}"
            f"{format_duration(row['time_ns']):>14}{band:>26}{ratio:>9}"
        )
        if has_tests and row["verdict"]:
            line += f"{_chance(row['p_value']):>9}{_chance(row['p_corrected']):>11}  "
            line += row["verdict"]
        lines.append(line)
    return lines


def _chance(p_value: float | None) -> str:
    if p_value is None:
        return ""
    return f"{p_value:.4f}" if p_value >= 0.0001 else "<0.0001"


def _whose(row: Row) -> str:
    return f"{row['role']} {row['operation']}"


def _of(rows: Sequence[Row], name: str, first: str) -> list[str]:
    services = [
        row
        for row in rows
        if (row["name"], row["measure"]) == (name, "service_avg") and row["ratio"] is not None
    ]
    found = _of_lengths(rows, name, first)
    # What ran once has no p-value: nobody can tell, and a warning says so.
    sure = [row for row in services if row["p_value"] is None or row["verdict"] == DIFFERENT]
    if sure:
        changed = ", ".join(f"{_whose(row)} {_change(row)}" for row in sure)
        found.append(f"Mean service time of {name} against {first}: {changed}.")
    for verdict, text in UNSURE.items():
        unsure = [_whose(row) for row in services if row["verdict"] == verdict and row not in sure]
        found += [f"{text}: {', '.join(unsure)}."] if unsure else []
    return [*found, *_power(rows, name)]


def _power(rows: Sequence[Row], name: str) -> list[str]:
    """Say from when on the repeats of a name find a difference, and how many it takes for less."""
    tested = [
        row
        for row in rows
        if row["name"] == name and row["measure"] in SHOWN and row["detectable_ratio"] is not None
    ]
    if not tested:
        return []
    least, most = (end(row["detectable_ratio"] for row in tested) for end in (min, max))
    found = f"{least:.1%}" if most < 1.1 * least else f"{least:.1%} to {most:.1%}"
    needed = [row["repeats_needed"] for row in tested]
    count = "more than a million" if None in needed else f"{max(needed):,}"
    way = "pairs" if tested[0]["pairs"] else "repeats"
    return [
        f"{tested[0]['pairs'] or tested[0]['repeats']:,} {way} find a difference of {found} with"
        f" {POWER:.0%} probability; for {SMALL:.0%} in every row it takes {count}."
    ]


def _of_lengths(rows: Sequence[Row], name: str, first: str) -> list[str]:
    of = {row["name"]: row for row in rows if row["measure"] == "elapsed"}
    if name not in of or first not in of:
        return []
    mine, other = of[name], of[first]
    took = f"{name} took {format_duration(mine['time_ns'])}"
    if mine["ratio"] is not None:
        unsure = UNSURE.get(mine["verdict"]) if mine["p_value"] is not None else None
        return [f"{took}: against {first} {_change(mine)}{f'. {unsure}' if unsure else ''}."]
    if is_same_work([mine["request_count"], other["request_count"]]):
        return []
    return [
        f"{took} for {mine['request_count']:,} requests, {first}"
        f" {format_duration(other['time_ns'])} for {other['request_count']:,}: not the same work,"
        " so neither these times nor the service times below say which is faster."
    ]


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
SHOWN = ("elapsed", "service_avg")
FAMILIES = (SHOWN, ("service_p50", "service_p99"))
"""Measures whose rows are corrected together: those of the table, and percentiles apart."""
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
    groups = groups_of(folder, names)
    rows = table_rows(groups)
    found = [group.name for group in groups]
    comparison = Comparison(
        names=found,
        replays={group.name: [*group.runs] for group in groups},
        headline=describe(rows, found),
        warnings=find_warnings(groups),
    )
    result: dict[str, Any] = msgspec.to_builtins(comparison)
    table = pa.Table.from_pylist(rows, COMPARISON)
    write_results(folder, RESULT, result=result, tables={TABLE: table})
    return result


def groups_of(folder: TraceFolder, names: Sequence[str]) -> list[Group]:
    """Return the repeats of each name with their times, as `choose` finds them."""
    candidates = choose(folder, names)
    with query.connect(folder) as connection:
        replayed = query.run(connection, "replay/replayed").to_pandas()
        traced = query.run(connection, "replay/traced").to_pandas()
    replayed = replayed[replayed["measure"] == "service"]
    first = next((c.replays[0] for c in candidates if c.replays), None)
    return [
        _replay_group(folder, candidate, replayed)
        if candidate.replays
        else _trace_group(candidate, traced[traced["replay"] == first])
        for candidate in candidates
    ]


def choose(folder: TraceFolder, names: Sequence[str]) -> list[Candidate]:
    """Find the replays of each name; raise UsageError for one that has none."""
    present = sorted(place.parent.name for place in folder.files("replays/*/completions.parquet"))
    if len(set(names)) != len(names):
        raise UsageError("a name comes twice: each is compared with the first")
    if len(names) < 2:
        raise UsageError(
            "name two or more to compare",
            hint=f"there are: {', '.join([TRACE, *present])}",
        )
    return [_candidate(name, present) for name in names]


def _candidate(name: str, present: Sequence[str]) -> Candidate:
    if name == TRACE and TRACE not in present:
        return Candidate(name, ())
    if name in present:
        return Candidate(name, (name,))
    found = repeats(name, among=present)
    if not found:
        raise UsageError(
            f"there is no replay '{name}'",
            hint=f"there are: {', '.join([TRACE, *present])}",
        )
    return Candidate(name, tuple(found))


def repeats(name: str, *, among: Iterable[str]) -> list[str]:
    """Return NAME.1, NAME.2 and so on among names, in their order."""
    found = [one for one in among if (match := _REPEAT.fullmatch(one)) and match["name"] == name]
    return sorted(found, key=lambda one: int(one.rpartition(".")[2]))


def name_of(run: str, *, among: Sequence[str]) -> str:
    """Return the name that the repeats NAME.1, NAME.2 and so on share, or that of a single run."""
    name = run.rpartition(".")[0]
    return name if run in repeats(name, among=among) and name not in among else run


class _Timing(Record):
    elapsed_ns: int


class _Counts(Record):
    done: int


class _Emulation(Record):
    is_within_budget: bool


class Run(Record):
    """What is compared of a replay's summary.json."""

    timing: _Timing
    counts: _Counts
    pace: str = ""
    turn: Turn | None = None
    machine: MachineState | None = None
    emulation: _Emulation | None = None


class Comparison(Record):
    """The content of comparison.json."""

    names: list[str]
    replays: dict[str, list[str]]
    headline: list[str]
    warnings: list[TraceWarning] = msgspec.field(default_factory=list)


Values = dict[Key, dict[str, tuple[float, int]]]
"""The time of each repeat, by its name, and of how many requests."""


@dataclass(frozen=True)
class Group:
    """The repeats of one name: what is kept of each run, and their times."""

    name: str
    values: Values
    runs: Mapping[str, Run] = field(default_factory=dict)

    def done(self) -> list[int]:
        """Return how many requests each repeat did."""
        return [count for _, count in self.values.get(ELAPSED, {}).values()]

    def pairs(self, first: Group) -> list[tuple[str, str]]:
        """Return the repeats of both that ran side by side, of whichever series they are."""
        partners = {_place(run.turn): name for name, run in first.runs.items() if run.turn}
        return [
            (name, partners[_place(run.turn)])
            for name, run in self.runs.items()
            if run.turn and _place(run.turn) in partners
        ]


def _place(turn: Turn) -> tuple[str, int]:
    return turn.series, turn.pair


def _replay_group(folder: TraceFolder, candidate: Candidate, times: pd.DataFrame) -> Group:
    found: Values = defaultdict(dict)
    runs = {}
    for replay in candidate.replays:
        file = folder.file(f"replays/{replay}/summary.json")
        content = read_object(file, hint="replay again")
        run = runs[replay] = validate(content, Run, file=file, hint="replay again")
        found[ELAPSED][replay] = float(run.timing.elapsed_ns), run.counts.done
        _add_services(found, times[times["replay"] == replay], name=replay)
    return Group(candidate.name, found, runs)


def _trace_group(candidate: Candidate, times: pd.DataFrame) -> Group:
    found: Values = defaultdict(dict)
    if len(times):
        elapsed = float(times["last_ns"].max() - times["first_ns"].min())
        found[ELAPSED][TRACE] = elapsed, int(times["request_count"].sum())
    _add_services(found, times, name=TRACE)
    return Group(candidate.name, found)


def _add_services(found: Values, times: pd.DataFrame, *, name: str) -> None:
    for row in times.to_dict("records"):
        for measure in MEASURES:
            key = (f"service_{measure}", str(row["role"]), str(row["operation"]))
            found[key][name] = float(row[f"time_{measure}_ns"]), int(row["request_count"])


def _work(groups: Sequence[Group]) -> list[list[int]]:
    """Return how many requests each repeat did.

    What is counted of the trace is that of the first replay: in the trace some were merged, so that
    its own number is another one.
    """
    first = next((group.done() for group in groups if group.runs), None)
    return [group.done() if group.runs or first is None else first[:1] for group in groups]


def table_rows(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Return the rows of comparison.parquet, with a verdict on each difference from the first."""
    first, work = groups[0], _work(groups)
    found = []
    for group, did in zip(groups, work, strict=True):
        pairs = [] if group is first else group.pairs(first)
        for key in sorted(group.values):
            can_compare = key[0] != "elapsed" or is_same_work([*did, *work[0]])
            ratio = _ratio(group.values[key], first.values.get(key, {}), pairs=pairs)
            found.append((group, key, ratio if can_compare else None))
    corrected: dict[int, tuple[float, int]] = {}
    for measures in FAMILIES:
        family = {
            number: ratio.p_value
            for number, (group, key, ratio) in enumerate(found)
            if group is not first and key[0] in measures and ratio is not None and ratio.has_spread
        }
        values = holm([value for value in family.values() if value is not None])
        corrected |= {
            number: (value, len(family)) for number, value in zip(family, values, strict=True)
        }
    return [
        {
            **_times(group, key),
            **_ends(ratio),
            **_verdict(None if group is first else ratio, *corrected.get(number, (None, 0))),
        }
        for number, (group, key, ratio) in enumerate(found)
    ]


def _ratio(
    times: Mapping[str, tuple[float, int]],
    to: Mapping[str, tuple[float, int]],
    *,
    pairs: Sequence[tuple[str, str]],
) -> Ratio | None:
    """Return the ratio over the pairs where there are some, else of both groups as a whole."""
    paired = [(times[mine][0], to[its][0]) for mine, its in pairs if mine in times and its in to]
    if len(paired) > 1:
        return paired_ratio(*zip(*paired, strict=True))
    if not to:
        return None
    return ratio_of([time for time, _ in times.values()], [time for time, _ in to.values()])


def _times(group: Group, key: Key) -> dict[str, Any]:
    cells = [*group.values[key].values()]
    mean = mean_of([time for time, _ in cells])
    return {
        "name": group.name,
        **dict(zip(("measure", "role", "operation"), key, strict=True)),
        "repeats": len(cells),
        "request_count": min(count for _, count in cells),
        "time_ns": mean.mean,
        "time_low_ns": mean.low,
        "time_high_ns": mean.high,
    }


def _ends(ratio: Ratio | None) -> dict[str, Any]:
    return {
        "ratio": None if ratio is None else ratio.mean,
        "ratio_low": None if ratio is None else ratio.low,
        "ratio_high": None if ratio is None else ratio.high,
    }


def _verdict(ratio: Ratio | None, corrected: float | None, tests: int) -> dict[str, Any]:
    """Return what the repeats say of a difference, of a family of so many tests."""
    found: dict[str, Any] = dict.fromkeys(JUDGED)
    if ratio is None:
        return found
    found["verdict"], found["p_value"] = CANNOT_TELL, ratio.p_value
    found["pairs"] = ratio.repeats if ratio.is_paired else None
    if corrected is not None:
        found["p_corrected"] = corrected
        found["verdict"] = DIFFERENT if corrected < 1 - LEVEL else NONE_FOUND
        found["detectable_ratio"] = detectable_ratio(ratio, tests=tests)
        found["repeats_needed"] = repeats_needed(ratio, SMALL, tests=tests)
    return found


ADVICE = {
    "emulation_late": "close what else runs and replay again, or use `chrt -f 10`",
    "run_once": "repeat both in turn: tracekit compare TRACE --run 'NAME: options' --repeat 6",
    "few_repeats": f"repeat both in turn at least {LEAST_REPEATS} times, better 6 or more",
    "one_after_the_other": "let them take turns: tracekit compare TRACE --run 'NAME: options' ...",
    "without_partner": "repeat the series to its end",
    "paced": "compare service times, or replay with --pace fast",
    "merged": "replay with --level issued to compare the same requests",
    "other_state": "repeat both in turn, on a machine that does nothing else",
}
"""Of each doubt about a comparison."""


def find_warnings(groups: Sequence[Group]) -> list[TraceWarning]:
    """Return what to doubt about the differences from the first."""
    first = groups[0]
    return (
        [
            TraceWarning(code=code, message=message, advice=ADVICE[code])
            for group in groups[1:]
            if first.runs and group.runs
            for code, message in _doubts(group, first)
        ]
        + [
            TraceWarning(code="emulation_late", message=message, advice=ADVICE["emulation_late"])
            for message in _emulated_late(groups)
        ]
        + [
            TraceWarning(code=code, message=message, advice=ADVICE[code])
            for code, message in _beside_trace(groups)
        ]
    )


def _beside_trace(groups: Sequence[Group]) -> Iterator[tuple[str, str]]:
    """Yield what to doubt where the trace is one of the names."""
    traced = next((group for group in groups if not group.runs), None)
    paced = [name for group in groups for name, run in group.runs.items() if run.pace == "trace"]
    if traced is None:
        return
    if paced:
        yield "paced", f"{', '.join(paced)} kept the pace of the trace: elapsed times cannot differ"
    for group in groups:
        unlike = [
            f"{role} {operation} {mine:,} of {other:,}"
            for (measure, role, operation), times in group.values.items()
            if group.runs and measure == "service_avg"
            for _, other in [next(iter(times.values()))]
            for _, mine in traced.values.get((measure, role, operation), {}).values()
            if mine < other
        ]
        if unlike:
            yield (
                "merged",
                f"of the trace's requests that {group.name} did, those that were merged into others"
                f" have no service time of their own: {', '.join(unlike)}",
            )


def _emulated_late(groups: Sequence[Group]) -> Iterator[str]:
    runs = [pair for group in groups for pair in group.runs.items()]
    late = [name for name, run in runs if run.emulation and not run.emulation.is_within_budget]
    if late:
        yield (
            f"the emulation was too late in {', '.join(late)}: these times are not the devices'"
            " alone"
        )


def _doubts(group: Group, first: Group) -> Iterator[tuple[str, str]]:
    both, pairs = f"{group.name} and {first.name}", len(group.pairs(first))
    counts = len(group.runs), len(first.runs)
    if min(counts) == 1:
        once = both if counts == (1, 1) else (group if counts[0] == 1 else first).name
        yield "run_once", f"{once} ran once: what differs may be chance"
    elif min(counts) < LEAST_REPEATS:
        yield "few_repeats", f"{both}: {min(counts)} repeats do not show how far they spread"
    if pairs < 2 <= min(counts):
        yield (
            "one_after_the_other",
            f"{both} did not take turns: a drift of the machine looks like a difference",
        )
    elif pairs >= 2 and (left := sum(counts) - 2 * pairs):
        yield "without_partner", f"{both}: {left} repeats are in no pair and not in the p-values"
    states = [[run.machine for run in one.runs.values() if run.machine] for one in (group, first)]
    if found := list(differences(*states)):
        yield "other_state", f"{both} ran in different states of the machine: {'; '.join(found)}"


def read_rows(folder: TraceFolder) -> list[dict[str, Any]]:
    """Return the rows of comparison.parquet."""
    rows: list[dict[str, Any]] = read_whole(folder.table(TABLE)).to_pylist()
    return rows
