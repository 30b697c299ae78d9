"""The stage: counts a command's runs or takes recorded ones, then writes tables and answer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit.contract import read_object
from tracekit.counters.events import GROUPS, group_of
from tracekit.counters.perf import checked_command, count, probe
from tracekit.counters.recorded import Count, read_counts
from tracekit.counters.statistics import statistics_of
from tracekit.counters.throughput import Rule
from tracekit.counters.words import headline
from tracekit.errors import UsageError
from tracekit.schema.counters import COUNTER_STATISTICS, COUNTERS
from tracekit.store import TraceFolder, measurement_folder, write_json, write_table

if TYPE_CHECKING:
    import pyarrow as pa

PLACE = "counters"
RESULT = "counters/counters.json"
MAX_RUNS = 10_000
RECORDED = "as recorded"
OnRun = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Options:
    """A command and how often, or recorded files, each with its throughput or none."""

    command: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    workload: str = ""
    runs: int = 5
    rule: Rule = field(default_factory=Rule)
    groups: tuple[tuple[str, ...], ...] = GROUPS
    overwrite: bool = False
    asked: tuple[str, ...] = ()
    """The words of the command line, for whoever wants to do it again."""

    def __post_init__(self) -> None:
        """Check that one thing is asked."""
        if bool(self.command) == bool(self.recorded):
            raise UsageError(
                "one of both is wanted: a command behind `--`, or recorded files by --from",
                hint="tracekit counters -o FOLDER -- COMMAND",
            )
        if not 1 <= self.runs <= MAX_RUNS:
            raise UsageError(f"--runs {self.runs}: not from 1 to {MAX_RUNS}")
        if self.workload and (not self.workload.isprintable() or len(self.workload) > 80):
            raise UsageError(f"--workload {self.workload!r}: not a name of at most 80 characters")

    @property
    def name(self) -> str:
        """Name of the workload: as asked, else the command's."""
        return self.workload or (Path(self.command[0]).name if self.command else "recorded")


def count_events(output: Path, options: Options, *, on_run: OnRun | None = None) -> dict[str, Any]:
    """Count into `output`/counters and return the answer, counters.json.

    Each run is kept when it ends: after an interruption, or with more --runs, the same command
    goes on. Other workloads of the folder stay.
    """
    if options.command:
        checked_command(options.command)
        reasons = probe([event for group in options.groups for event in group])
    else:
        taken = _recorded(options)
    folder = measurement_folder(output)
    (folder.path / PLACE).mkdir(exist_ok=True)
    file = _file(folder, options.name)
    state = {**_state(file, options), "asked": list(options.asked)}
    if options.command:
        state["reasons"] = reasons
        _run(file, state, options=options, on_run=on_run)
    else:
        _refuse_known(taken, state)
        state["runs"] += taken
        write_json(file, state)
    return _answer(folder, options.name)


def _recorded(options: Options) -> list[dict[str, Any]]:
    """Return the recorded runs; all are read before anything is written."""
    return [_taken(text, options.rule) for text in options.recorded]


def _refuse_known(taken: Sequence[Mapping[str, Any]], state: Mapping[str, Any]) -> None:
    """Raise UsageError for a run that is there already: counted twice it would tell too much."""
    seen = [run["counts"] for run in state["runs"]]
    for run in taken:
        if run["counts"] in seen:
            raise UsageError(
                f"{run['source']} is there already, in workload '{state['workload']}'",
                hint="leave it out, or pass --force to begin anew",
            )
        seen.append(run["counts"])


def _taken(text: str, rule: Rule) -> dict[str, Any]:
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
    return {
        "source": file.name,
        "counts": [asdict(one) for one in counts],
        "throughput": rate,
        "elapsed_ns": None,
    }


def _file(folder: TraceFolder, workload: str) -> Path:
    """Return the file of a workload's runs; its name is of no use to a file system."""
    digest = hashlib.sha256(workload.encode()).hexdigest()[:16]
    return folder.path / PLACE / f"runs-{digest}.json"


def _state(file: Path, options: Options) -> dict[str, Any]:
    """Return the workload's runs so far; UsageError when they are of something else."""
    asked = {
        "workload": options.name,
        "command": list(options.command),
        "unit": options.rule.unit if options.command or options.rule.pattern else RECORDED,
        "groups": [list(group) for group in options.groups],
    }
    if options.overwrite or not file.exists():
        return {**asked, "reasons": {}, "runs": []}
    state = read_object(file, hint=f"remove {file}")
    other = [key for key in asked if state.get(key) != asked[key]]
    if other:
        raise UsageError(
            f"the folder has a workload '{options.name}' with another {other[0]}",
            hint="choose another --workload, or pass --force to replace it",
        )
    return state


def _run(file: Path, state: dict[str, Any], *, options: Options, on_run: OnRun | None) -> None:
    usable = {event for event, reason in state["reasons"].items() if not reason}
    for number in range(len(state["runs"]), options.runs):
        if on_run is not None:
            on_run(options.name, number, options.runs)
        ran = count(options.command, options.groups, usable=usable)
        state["runs"].append(
            {
                "source": " ".join(options.command),
                "counts": [asdict(one) for one in ran.counts],
                "throughput": options.rule.of_run(ran.output, ran.elapsed_ns),
                "elapsed_ns": ran.elapsed_ns,
            }
        )
        write_json(file, state)


def _answer(folder: TraceFolder, workload: str) -> dict[str, Any]:
    """Write the tables of all workloads of the folder, and the answer."""
    states = [
        read_object(file, hint=f"remove {file}")
        for file in sorted((folder.path / PLACE).glob("runs-*.json"))
    ]
    states.sort(key=lambda state: str(state["workload"]))
    rows = [row for state in states for row in _rows(state)]
    statistics = {
        state["workload"]: statistics_of([r for r in rows if r["workload"] == state["workload"]])
        for state in states
    }
    told = [
        {"workload": name, **asdict(one)} for name, found in statistics.items() for one in found
    ]
    write_table(folder.table("counters/counters"), _table(rows, COUNTERS))
    write_table(folder.table("counters/counter_statistics"), _table(told, COUNTER_STATISTICS))
    result: dict[str, Any] = {
        "workload": workload,
        "workloads": [_workload(state, statistics[state["workload"]]) for state in states],
    }
    result["headline"] = headline(result, statistics)
    write_json(folder.path / RESULT, result)
    return result


def _workload(state: Mapping[str, Any], found: Sequence[Any]) -> dict[str, Any]:
    """Say of a workload what was run, what could not be counted and what took turns."""
    missing = {event: reason for event, reason in state["reasons"].items() if reason}
    for run in state["runs"]:
        for one in run["counts"]:
            if one["count"] is None:
                missing.setdefault(one["event"], one["reason"])
    return {
        "workload": state["workload"],
        "command": state["command"],
        "asked": state["asked"],
        "unit": state["unit"],
        "runs": len(state["runs"]),
        "without_throughput": sum(run["throughput"] is None for run in state["runs"]),
        "not_counted": missing,
        "means": sum(any(one.get("is_mean") for one in run["counts"]) for run in state["runs"]),
        "took_turns": [one.event for one in found if (one.least_running_ratio or 1.0) < 1.0],
        "user_only": sorted(
            {one["event"] for run in state["runs"] for one in run["counts"] if one["is_user"]}
        ),
    }


def _rows(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for number, run in enumerate(state["runs"], 1):
        counts = {one["event"]: Count(**one) for one in run["counts"]}
        for event, reason in state["reasons"].items():
            if reason and event not in counts:
                counts[event] = Count(event, None, "", None, reason)
        rows += [
            {
                "workload": state["workload"],
                "run": number,
                "source": run["source"],
                "event": one.event,
                "counted_group": group_of(state["groups"], one.event) if state["command"] else "",
                "count": one.count,
                "unit": one.unit,
                "running_ratio": one.running_ratio,
                "reason": one.reason,
                "throughput": run["throughput"],
                "throughput_unit": state["unit"],
                "elapsed_ns": run["elapsed_ns"],
            }
            for one in counts.values()
        ]
    return rows


def _table(rows: Sequence[Mapping[str, Any]], columns: pa.Schema) -> pa.Table:
    import pyarrow as pa

    return pa.table({name: [row[name] for row in rows] for name in columns.names}, columns)
