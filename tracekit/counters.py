"""The stage: counts a command's runs or takes recorded ones, then writes tables and answer."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.durable import make_folder
from tracekit.errors import InputError, MissingError, UsageError
from tracekit.invoking_user import User
from tracekit.locks import folder_lock
from tracekit.metadata import Record, read_object, validate
from tracekit.perf_stat import (
    GROUPS,
    TITLES,
    Count,
    checked_command,
    count,
    group_of,
    probe,
    read_counts,
)
from tracekit.safe_open import read_given
from tracekit.store import TraceFolder, measurement_folder, write_json, write_results
from tracekit.tables import COUNTER_STATISTICS, COUNTERS

LEAST_CORRELATED = 3
LEAST_INTERVAL = 4
CONFIDENCE = 0.95
ALPHA = 0.05
"""Most of the telling events that are so by chance, on average."""
SAME = 1e-12
"""A spread that is less of its mean is none: counts and rates never differ by so little."""


@dataclass(frozen=True)
class Statistics:
    """One event over the runs of a workload; None where the runs are too few or all alike."""

    event: str
    runs: int
    mean: float
    deviation: float | None
    least_running_ratio: float | None
    correlation: float | None = None
    correlation_low: float | None = None
    correlation_high: float | None = None
    p_value: float | None = None
    spearman: float | None = None
    corrected_p_value: float | None = None
    rank: int | None = None

    @property
    def surely(self) -> float:
        """How far from 0 the correlation is at least; 0 when its interval holds 0."""
        if self.correlation_low is None or self.correlation_high is None:
            return 0.0
        if self.correlation_low * self.correlation_high <= 0:
            return 0.0
        return min(abs(self.correlation_low), abs(self.correlation_high))

    @property
    def is_telling(self) -> bool:
        """Whether it is distinct from 0 among all events that were tried."""
        return self.corrected_p_value is not None and self.corrected_p_value <= ALPHA


def statistics_of(rows: Sequence[Mapping[str, Any]]) -> list[Statistics]:
    """Return the statistics of each event of one workload's rows, in their order, ranked.

    p-values are corrected over them by Benjamini and Hochberg (1995): of the correlations that
    seem distinct from 0, on average at most 5 % are not.
    """
    events = list(dict.fromkeys(row["event"] for row in rows))
    found = []
    for event in events:
        mine = [row for row in rows if row["event"] == event and row["count"] is not None]
        if mine:
            found.append(_of(event, mine))
    order = sorted(
        (one for one in found if one.correlation_low is not None),
        key=lambda one: (-one.surely, -abs(one.correlation or 0.0), one.event),
    )
    ranks = {one.event: number for number, one in enumerate(order, 1)}
    tried = {one.event: one.p_value for one in order if one.p_value is not None}
    corrected: dict[str, float] = {}
    if tried:
        from scipy.stats import false_discovery_control

        levels = false_discovery_control(list(tried.values())).tolist()
        corrected = dict(zip(tried, levels, strict=True))
    return [
        replace(one, rank=ranks.get(one.event), corrected_p_value=corrected.get(one.event))
        for one in found
    ]


def _of(event: str, rows: Sequence[Mapping[str, Any]]) -> Statistics:
    counts = np.array([row["count"] for row in rows], float)
    shares = [row["running_ratio"] for row in rows if row["running_ratio"] is not None]
    paired = [row for row in rows if row["throughput"] is not None]
    rates = [row["throughput"] for row in paired]
    return Statistics(
        event,
        len(rows),
        float(counts.mean()),
        float(counts.std(ddof=1)) if len(counts) > 1 else None,
        min(shares, default=None),
        *correlated([row["count"] for row in paired], rates),
        spearman([row["count"] for row in paired], rates),
    )


def spearman(counts: Sequence[float], rates: Sequence[float]) -> float | None:
    """Return Spearman's correlation of ranks, which no single run can make; None as Pearson's."""
    if len(counts) < LEAST_CORRELATED or _is_constant(counts) or _is_constant(rates):
        return None
    from scipy import stats

    return float(stats.spearmanr(counts, rates).statistic)


def correlated(
    counts: Sequence[float], rates: Sequence[float]
) -> tuple[float | None, float | None, float | None, float | None]:
    """Return Pearson's r, both ends of its 95 % interval (Fisher's z) and its p-value.

    All None below three pairs or where one of both never changes; the ends below four pairs.
    """
    if len(counts) < LEAST_CORRELATED or _is_constant(counts) or _is_constant(rates):
        return None, None, None, None
    from scipy import stats

    found = stats.pearsonr(counts, rates)
    r, p_value = float(found.statistic), float(found.pvalue)
    if len(counts) < LEAST_INTERVAL:
        return r, None, None, p_value
    low, high = found.confidence_interval(CONFIDENCE)
    return r, float(low), float(high), p_value


def _is_constant(values: Sequence[float]) -> bool:
    return max(values) - min(values) <= SAME * max(map(abs, values)) or not all(
        map(math.isfinite, values)
    )


KEYS = (
    "operations_per_second",
    "requests_per_second",
    "bytes_per_second",
    "timing.requests_per_second",
    "timing.operations_per_second",
    "timing.bytes_per_second",
)
RUNS_A_SECOND = "runs a second"


@dataclass(frozen=True)
class Rule:
    """Where the throughput is found; with neither pattern nor file it is 1 / elapsed time."""

    pattern: str = ""
    summary: Path | None = None
    key: str = ""

    def __post_init__(self) -> None:
        """Check that the rule is one and can be used."""
        if self.pattern and self.summary is not None:
            raise UsageError("--throughput and --summary exclude each other")
        if self.key and self.summary is None:
            raise UsageError("--key needs the --summary in which it stands")
        if not self.pattern:
            return
        try:
            groups = re.compile(self.pattern).groups
        except (re.error, RecursionError, OverflowError) as error:
            raise UsageError(f"--throughput {self.pattern!r}: {error}") from None
        if groups != 1:
            raise UsageError(
                f"--throughput {self.pattern!r}: has {groups} groups, not one",
                hint="the number stands in round brackets, as in '([0-9.]+) ops/s'",
            )
        try:
            _last_match(self.pattern, "")
        except pa.ArrowInvalid as error:
            hint = "no look-ahead, no back reference"
            raise UsageError(f"--throughput {self.pattern!r}: {error}", hint=hint) from None

    @property
    def unit(self) -> str:
        """What the throughput is, as it is shown."""
        if self.pattern:
            return f"output: {self.pattern}"
        if self.summary is not None:
            return f"summary: {self.key or 'operations, requests or bytes a second'}"
        return RUNS_A_SECOND

    def of_run(self, output: str, elapsed_ns: int) -> float:
        """Return the throughput of a run; InputError when it does not tell."""
        if self.pattern:
            return self.of_text(output, "the command's output")
        if self.summary is not None:
            return _of_summary(self.summary, self.key)
        return 1e9 / max(elapsed_ns, 1)

    def of_text(self, text: str, place: str) -> float:
        """Return the number that the pattern finds last, of a text; commas are taken out."""
        found = _last_match(self.pattern, text)
        if found is None:
            raise InputError(f"--throughput {self.pattern!r} is nowhere in {place}")
        return _rate(found.replace(",", ""), f"--throughput in {place}")


def _last_match(pattern: str, text: str) -> str | None:
    """Return the last that the pattern's group finds; RE2's time grows with the text only."""
    plain = pa.array([text.replace("\0", "")])
    parts: list[str] = pc.replace_substring_regex(plain, pattern, "\0\\1\0")[0].as_py().split("\0")
    return parts[-2] if len(parts) > 1 else None


def _of_summary(file: Path, key: str) -> float:
    try:
        content = json.loads(read_given(file))
    except MissingError:
        raise InputError(f"--summary {file}: the run has not written it") from None
    except OSError as error:
        raise InputError(f"--summary {file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"--summary {file}: not JSON: {error}") from None
    for one in (key,) if key else KEYS:
        value = _at(content, one)
        if value is not None:
            return _rate(value, f"{file}: {one}")
    raise InputError(
        f"{file} has no {key or 'rate'}",
        hint="name it with --key" if not key else f"it has: {_names(content)}",
    )


def _at(content: Any, key: str) -> Any:
    for word in key.split("."):
        if not isinstance(content, Mapping) or word not in content:
            return None
        content = content[word]
    return content


def _names(content: Any) -> str:
    return ", ".join(list(content)[:12]) if isinstance(content, Mapping) else "no keys"


def _rate(value: Any, place: str) -> float:
    try:
        rate = float(value)
    except (TypeError, ValueError):
        rate = math.nan
    if isinstance(value, bool) or not math.isfinite(rate) or rate < 0:
        raise InputError(f"{place}: {value!r} is not a rate from 0 up")
    return rate


MOST_TELLING = 5


class WorkloadSummary(Record):
    """A workload of counters.json: what was run, what was not counted and what took turns."""

    workload: str
    command: list[str]
    asked: list[str]
    unit: str
    runs: int
    without_throughput: int
    not_counted: dict[str, str]
    means: int
    took_turns: list[str]
    user_only: list[str]


class CountersAnswer(Record):
    """The content of counters.json."""

    workload: str
    workloads: list[WorkloadSummary]
    headline: list[str]


def headline(
    workload: str,
    workloads: Sequence[WorkloadSummary],
    *,
    found: Mapping[str, Sequence[Statistics]],
) -> list[str]:
    """Return the lines about the workload that was counted, then those about all of them."""
    mine = [one for one in workloads if one.workload == workload]
    lines = [line for one in mine for line in _describe_workload(one, found[one.workload])]
    if len(workloads) > 1:
        shown = ", ".join(f"{one.workload} ({_many(one.runs, 'run')})" for one in workloads)
        lines.append(f"in this folder: {shown}")
    others = {name: _sure(more) for name, more in found.items() if name != workload}
    return lines + [
        f"most telling of {name}: {_shown(sure)}" for name, sure in others.items() if sure
    ]


def _describe_workload(workload: WorkloadSummary, found: Sequence[Statistics]) -> Iterator[str]:
    counted = [one for one in found if one.mean > 0]
    yield (
        f"{workload.workload}: {_many(workload.runs, 'run')}, {_many(len(found), 'event')}"
        f" counted, {len(workload.not_counted)} not; throughput: {workload.unit}"
    )
    basics = [one for one in counted if one.event in BASICS]
    if basics:
        yield "a run has on average " + ", ".join(
            f"{one.mean:,.0f} {title(one.event)}" for one in basics
        )
    yield from _telling(workload, found)
    if workload.took_turns:
        least = min(one.least_running_ratio or 1.0 for one in found)
        turns = _many(len(workload.took_turns), "event")
        yield (
            f"{turns} took turns, the least counted {least:.0%} of the time:"
            " their counts are extrapolated; fewer --events at a time are exact"
        )
    if workload.means:
        yield (
            f"{workload.means} of the runs are means of several (perf stat -r): their spread is"
            " less than that of runs, and correlations are of means"
        )
    if workload.user_only:
        yield f"without the kernel's part, for lack of permission: {', '.join(workload.user_only)}"
    for reason, events in _by_reason(workload.not_counted).items():
        yield f"not counted ({reason}): {', '.join(events)}"


BASICS = ("page-faults", "context-switches", "raw_syscalls:sys_enter")


def _telling(workload: WorkloadSummary, found: Sequence[Statistics]) -> Iterator[str]:
    if workload.without_throughput:
        yield (
            f"{workload.without_throughput} runs do not tell their throughput and are in no"
            " correlation: --from FILE=THROUGHPUT"
        )
    if workload.runs - workload.without_throughput < LEAST_INTERVAL:
        yield f"too few runs for a confidence interval: it needs {LEAST_INTERVAL}, better more"
        return
    tried = [one for one in found if one.rank is not None]
    sure = _sure(found)
    if not sure:
        yield (
            f"no correlation with the throughput is distinct from zero in {workload.runs} runs"
            f" ({len(tried)} events tried, Benjamini-Hochberg)"
        )
        return
    yield (
        f"most telling of the throughput: {_shown(sure)}; {len(sure)} of {len(tried)} events tried,"
        " of which at most 5% are by chance on average (Benjamini-Hochberg)"
    )


def _sure(found: Sequence[Statistics]) -> list[Statistics]:
    return sorted((one for one in found if one.is_telling), key=lambda one: one.rank or 0)


def _shown(sure: Sequence[Statistics]) -> str:
    return ", ".join(
        f"{title(one.event)} {one.correlation:+.2f}"
        f" ({one.correlation_low:+.2f} to {one.correlation_high:+.2f}; by ranks"
        f" {one.spearman:+.2f})"
        for one in sure[:MOST_TELLING]
    )


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def title(event: str) -> str:
    """Return how an event is called in a sentence."""
    return TITLES.get(event, event.replace("-", " ") if event in BASICS else event)


def _by_reason(missing: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for event, reason in missing.items():
        found.setdefault(reason, []).append(event)
    return found


PLACE = "counters"
RESULT = "counters/counters.json"
MAX_RUNS = 10_000
RECORDED = "as recorded"
TIMED = "; events of the measured time alone"
OnRun = Callable[[str, int, int], None]


class Run(Record):
    """One run of a workload; recorded ones have no elapsed time, and maybe no throughput."""

    source: str
    counts: list[Count]
    throughput: float | None
    elapsed_ns: int | None


class WorkloadRuns(Record):
    """The content of runs-*.json: the runs of one workload; `reasons` why events are missing."""

    workload: str
    command: list[str]
    unit: str
    groups: list[list[str]]
    reasons: dict[str, str] = msgspec.field(default_factory=dict)
    runs: list[Run] = msgspec.field(default_factory=list)
    asked: list[str] = msgspec.field(default_factory=list)


@dataclass(frozen=True)
class CountersOptions:
    """A command and how often, or recorded files, each with its throughput or none."""

    command: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    workload: str = ""
    runs: int = 5
    rule: Rule = field(default_factory=Rule)
    groups: tuple[tuple[str, ...], ...] = GROUPS
    overwrite: bool = False
    is_timed: bool = False
    """Count while a personality of tracekit is measured alone."""
    user: User | None = None
    """Who the command runs as; None: with the rights of this process."""
    asked: tuple[str, ...] = ()
    """The command line."""

    def __post_init__(self) -> None:
        """Check that there is a command or there are files, and the numbers."""
        if bool(self.command) == bool(self.recorded):
            raise UsageError(
                "give either a command after `--`, or recorded files with --from",
                hint="tracekit counters -o FOLDER -- COMMAND",
            )
        if self.rule.summary is not None and self.recorded:
            raise UsageError(
                "--summary is of a command's runs", hint="write --from FILE=THROUGHPUT instead"
            )
        if self.is_timed and self.recorded:
            raise UsageError("--timed counts a command, and --from is none")
        if not 1 <= self.runs <= MAX_RUNS:
            raise UsageError(f"--repeat {self.runs}: not from 1 to {MAX_RUNS}")
        if self.workload and (not self.workload.isprintable() or len(self.workload) > 80):
            raise UsageError(f"--workload {self.workload!r}: not a name of at most 80 characters")

    @property
    def name(self) -> str:
        """Name of the workload: the one given, else the command's."""
        return self.workload or (Path(self.command[0]).name if self.command else "recorded")


def count_events(
    output: Path, options: CountersOptions, *, on_run: OnRun | None = None
) -> dict[str, Any]:
    """Count into `output`/counters and return the answer, counters.json.

    Each run is kept when it ends: after an interruption, or with more --repeat, the same command
    adds the missing ones. Other workloads of the folder stay.
    """
    if options.command:
        checked_command(options.command)
        reasons = probe([event for group in options.groups for event in group])
    else:
        # All are read before anything is written.
        recorded = [_taken(text, options.rule) for text in options.recorded]
    folder = measurement_folder(output)
    with folder_lock(folder.path):
        make_folder(folder.path / PLACE)
        file = _file(folder, options.name)
        state = _state(file, options)
        state.asked = list(options.asked)
        if options.command:
            state.reasons = reasons
            _run(file, state, options=options, on_run=on_run)
        else:
            _reject_known(recorded, state)
            state.runs += recorded
            write_json(file, msgspec.to_builtins(state))
        return _answer(folder, options.name)


def _reject_known(recorded: Sequence[Run], state: WorkloadRuns) -> None:
    """Raise UsageError for a run that is there already: it would count twice."""
    seen = [run.counts for run in state.runs]
    for run in recorded:
        if run.counts in seen:
            raise UsageError(
                f"{run.source} is there already, in workload '{state.workload}'",
                hint="leave it out, or pass --force to begin anew",
            )
        seen.append(run.counts)


def _taken(text: str, rule: Rule) -> Run:
    """Return a run of FILE or FILE=THROUGHPUT."""
    name, equals, number = text.rpartition("=")
    has_number = bool(equals) and not Path(text).exists()
    file = Path(name if has_number else text)
    counts, content = read_counts(file)
    rate = None
    if has_number:
        try:
            rate = float(number)
        except ValueError:
            rate = -1.0
        if not 0 <= rate < float("inf"):
            raise UsageError(f"--from {text}: {number!r} is not a throughput")
    elif rule.pattern:
        rate = rule.of_text(content, str(file))
    return Run(source=file.name, counts=counts, throughput=rate, elapsed_ns=None)


def _file(folder: TraceFolder, workload: str) -> Path:
    """Return the file of a workload's runs; its name is of no use to a file system."""
    digest = hashlib.sha256(workload.encode()).hexdigest()[:16]
    return folder.file(f"{PLACE}/runs-{digest}.json")


def _state(file: Path, options: CountersOptions) -> WorkloadRuns:
    """Return the workload's runs so far; UsageError when they are of something else."""
    state = WorkloadRuns(
        workload=options.name,
        command=list(options.command),
        unit=(options.rule.unit if options.command or options.rule.pattern else RECORDED)
        + (TIMED if options.is_timed else ""),
        groups=[list(group) for group in options.groups],
    )
    if options.overwrite or not file.exists():
        return state
    found = _read_runs(file)
    for key in ("workload", "command", "unit", "groups"):
        if getattr(found, key) != getattr(state, key):
            raise UsageError(
                f"the folder has a workload '{options.name}' with another {key}",
                hint="choose another --workload, or pass --force to replace it",
            )
    return found


def _read_runs(file: Path) -> WorkloadRuns:
    hint = f"remove {file}"
    return validate(read_object(file, hint=hint), WorkloadRuns, file=file, hint=hint)


def _run(
    file: Path, state: WorkloadRuns, *, options: CountersOptions, on_run: OnRun | None
) -> None:
    usable = {event for event, reason in state.reasons.items() if not reason}
    for number in range(len(state.runs), options.runs):
        if on_run is not None:
            on_run(options.name, number, options.runs)
        ran = count(
            options.command,
            options.groups,
            usable=usable,
            user=options.user,
            is_timed=options.is_timed,
        )
        rate = options.rule.of_run(ran.output, ran.elapsed_ns)
        run = Run(
            source=" ".join(options.command),
            counts=ran.counts,
            throughput=rate,
            elapsed_ns=ran.elapsed_ns,
        )
        state.runs.append(run)
        write_json(file, msgspec.to_builtins(state))


def _answer(folder: TraceFolder, workload: str) -> dict[str, Any]:
    """Write the tables of all workloads of the folder, and the answer."""
    states = [_read_runs(file) for file in folder.files(f"{PLACE}/runs-*.json")]
    states.sort(key=lambda state: state.workload)
    rows = [row for state in states for row in _rows(state)]
    statistics = {
        state.workload: statistics_of([r for r in rows if r["workload"] == state.workload])
        for state in states
    }
    ranked = [
        {"workload": name, **asdict(one)} for name, found in statistics.items() for one in found
    ]
    workloads = [_workload(state, statistics[state.workload]) for state in states]
    answer = CountersAnswer(
        workload=workload,
        workloads=workloads,
        headline=headline(workload, workloads, found=statistics),
    )
    result: dict[str, Any] = msgspec.to_builtins(answer)
    tables = {
        "counters/counters": pa.Table.from_pylist(rows, COUNTERS),
        "counters/counter_statistics": pa.Table.from_pylist(ranked, COUNTER_STATISTICS),
    }
    write_results(folder, RESULT, result=result, tables=tables)
    return result


def _workload(state: WorkloadRuns, found: Sequence[Statistics]) -> WorkloadSummary:
    """Return what was run of a workload, what could not be counted and what took turns."""
    missing = {event: reason for event, reason in state.reasons.items() if reason}
    counts = [one for run in state.runs for one in run.counts]
    for one in counts:
        if one.count is None:
            missing.setdefault(one.event, one.reason)
    return WorkloadSummary(
        workload=state.workload,
        command=state.command,
        asked=state.asked,
        unit=state.unit,
        runs=len(state.runs),
        without_throughput=sum(run.throughput is None for run in state.runs),
        not_counted=missing,
        means=sum(any(one.is_mean for one in run.counts) for run in state.runs),
        took_turns=[one.event for one in found if (one.least_running_ratio or 1.0) < 1.0],
        user_only=sorted({one.event for one in counts if one.is_user}),
    )


def _rows(state: WorkloadRuns) -> list[dict[str, Any]]:
    rows = []
    for number, run in enumerate(state.runs, 1):
        counts = {one.event: one for one in run.counts}
        for event, reason in state.reasons.items():
            if reason and event not in counts:
                counts[event] = Count(event, None, "", None, reason)
        rows += [
            {
                "workload": state.workload,
                "run": number,
                "source": run.source,
                "event": one.event,
                "counted_group": group_of(state.groups, one.event) if state.command else "",
                "count": one.count,
                "unit": one.unit,
                "running_ratio": one.running_ratio,
                "reason": one.reason,
                "throughput": run.throughput,
                "throughput_unit": state.unit,
                "elapsed_ns": run.elapsed_ns,
            }
            for one in counts.values()
        ]
    return rows
