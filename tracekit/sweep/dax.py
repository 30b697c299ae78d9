"""Says for which of a user's workloads DAX pays, by how much, and at which step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from tracekit import query
from tracekit.sizes import format_duration
from tracekit.store import TraceFolder
from tracekit.sweep.points import percent, setting_name, times
from tracekit.sweep.stage import read_results

VERDICTS = "files/dax_verdicts"
HEADS = {
    "pays": "pays for {}",
    "does not pay": "does not pay for {}",
    "no difference": "makes no difference for {}",
    "not decided": "may or may not pay for {}",
}
Row = Mapping[str, Any]


def find_verdicts(folder: TraceFolder) -> list[dict[str, Any]]:
    """Return one row a setting and pair of targets with and without DAX; none without both."""
    with query.connect(folder) as connection:
        return list(query.run(connection, VERDICTS).to_pylist())


def stand_ins(folder: TraceFolder) -> list[str]:
    """Return a sentence for each target that only stands for DAX: what it leaves out."""
    found = {
        run["target"]: run["memory"].get("medium")
        for run in read_results(folder)
        if run.get("memory", {}).get("stands_for_dax")
    }
    return [_stand_in(target, medium) for target, medium in sorted(found.items())]


def _stand_in(target: str, medium: Mapping[str, int] | None) -> str:
    speed = "at the speed of this machine's"
    if medium:
        read, write = (format_duration(medium[f"{way}_line_ns"]) for way in ("read", "write"))
        speed = f"with {read} more for each 64 bytes that a call reads, {write} for those it writes"
    return (
        f"{target} stands for a file system with DAX: it is one in memory alone, {speed}; its fsync"
        " and its own bookkeeping cost no medium anything, so DAX gains there at most what is said."
    )


def summarize(verdicts: Sequence[Row]) -> list[str]:
    """Return the paragraphs as lines for a terminal."""
    return [
        line
        for title, lines in paragraphs(verdicts)
        for line in (title, *(f"  {line}" for line in lines))
    ]


def paragraphs(verdicts: Sequence[Row]) -> list[tuple[str, list[str]]]:
    """Return for each pair of targets what holds for all workloads, and a line for each."""
    found = []
    for pairs in _grouped(verdicts, "other", "target"):
        workloads = list(_grouped(pairs, "personality"))
        title = f"{pairs[0]['target']} beside {pairs[0]['other']}: {_heads(workloads)}"
        found.append((title, [_workload(rows) for rows in workloads]))
    return found


def _grouped(rows: Sequence[Row], *keys: str) -> Iterator[list[Row]]:
    def key(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in keys)

    for _, group in groupby(sorted(rows, key=key), key=key):
        yield list(group)


def _heads(workloads: Sequence[Sequence[Row]]) -> str:
    """Say for which workloads DAX pays; those whose settings do not agree are said to depend."""
    found = {rows[0]["personality"]: {row["verdict"] for row in rows} for rows in workloads}
    parts = []
    for verdict, head in HEADS.items():
        names = [name for name, verdicts in found.items() if verdicts == {verdict}]
        parts += [head.format(_listed(names))] if names else []
    mixed = [name for name, verdicts in found.items() if len(verdicts) > 1]
    parts += [f"differs by the setting for {_listed(mixed)}"] if mixed else []
    return f"DAX {'; '.join(parts)}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _workload(rows: Sequence[Row]) -> str:
    """Say what is found of one workload: in full, or of its settings how many and the ends."""
    if len(rows) == 1:
        return explain(rows[0])
    counts = [
        f"{verdict} in {count}"
        for verdict in HEADS
        if (count := sum(row["verdict"] == verdict for row in rows))
    ]
    text = f"{rows[0]['personality']}, {len(rows)} settings: {', '.join(counts)}"
    if all(row["run_count"] == 1 for row in rows):
        text += " by one run each: more --runs tell"
    known = sorted((row for row in rows if row["ratio"] is not None), key=lambda row: row["ratio"])
    if not known:
        return text
    low, high = known[0], known[-1]
    return (
        f"{text}; {times(low['ratio'])} times the steps ({setting_name(low)})"
        f" to {times(high['ratio'])} times ({setting_name(high)})"
    )


def explain(row: Row) -> str:
    """Say the ratio of one setting with its confidence, and which step makes it."""
    name = row["personality"]
    if row["ratio"] is None:
        return f"{name}: not decided, one of the targets has not done any step"
    text = f"{name}: {row['verdict']}, {times(row['ratio'])} times the steps"
    if row["ratio_low"] is None:
        text += " of one run each: more --runs tell how sure that is"
    else:
        text += (
            f" ({times(row['ratio_low'])} to {times(row['ratio_high'])} with 95 % confidence,"
            f" {row['run_count']} runs each)"
        )
    return text + (f"; {_reason(row)}" if row["step"] is not None else "")


def _reason(row: Row) -> str:
    if row["saved_ratio"] is None or row["mean_ns"] is None or row["other_mean_ns"] is None:
        return f"{row['step']} was not done on both"
    does = "saves" if row["saved_ratio"] >= 0 else "costs"
    return (
        f"{row['step']} {does} {percent(abs(row['saved_ratio']))} of the time of all steps on"
        f" {row['other']}: it takes {format_duration(row['other_mean_ns'])} and"
        f" {percent(row['other_time_ratio'])} of the time there,"
        f" {format_duration(row['mean_ns'])} and {percent(row['time_ratio'])} on {row['target']}"
    )
