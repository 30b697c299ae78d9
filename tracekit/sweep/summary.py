"""Says what a sweep found, in rows and in sentences."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from tracekit import query
from tracekit.escapes import escape
from tracekit.plans.file_plan import Medium
from tracekit.store import TraceFolder
from tracekit.sweep.run import ALL, Swept, read_runs
from tracekit.sweep.slow_memories import describe_memory
from tracekit.units import format_duration, format_share, format_size

NAMED = ("threads", "files", "io_size", "append_size")
"""Settings that the name of a point has anyway; those of appends change with those of calls."""


def varied_settings(texts: Iterable[str]) -> list[str]:
    """Return the keys that differ between the settings, as JSON, of one personality's points."""
    settings = [json.loads(text) for text in dict.fromkeys(texts)]
    keys = dict.fromkeys(key for one in settings for key in one)
    return [key for key in keys if len({one.get(key) for one in settings}) > 1]


def setting_word(key: str, value: Any) -> str:
    """Write one setting: a size with its unit, a number with separators, an option as it is."""
    if isinstance(value, str):
        return f"{key} {value}"
    return f"{key} {format_size(value) if key.endswith('_size') else f'{value:,}'}"


def setting_name(row: Row, varied: Sequence[str] = ()) -> str:
    """Name a setting by what is varied most, and by those of the `varied` ones that it has."""
    parts = [f"{row['threads']} thread{'' if row['threads'] == 1 else 's'}"]
    if row["files"] is not None:
        parts.append(f"{row['files']:,} files")
    if row["io_bytes"] is not None:
        parts.append(f"{format_size(row['io_bytes'])} a call")
    settings = json.loads(row["settings"]) if varied else {}
    more = [key for key in varied if key in settings and key not in NAMED]
    return ", ".join([*parts, *(setting_word(key, settings[key]) for key in more)])


def rate(row: Row) -> str:
    """Say the rate of a point with its spread."""
    text = f"{row['steps_per_second']:,.0f} steps/s"
    if row["rate_low_per_second"] is not None:
        runs = "batches of one run" if row["run_count"] == 1 else f"{row['run_count']} runs"
        low, high = row["rate_low_per_second"], row["rate_high_per_second"]
        text += f" ({low:,.0f} to {high:,.0f} with 95% confidence, {runs})"
    return text + f", {format_size(row['bytes_per_second'])}/s"


def times(ratio: float) -> str:
    """Write a ratio with three digits."""
    return f"{ratio:,.0f}" if ratio >= 1000 else f"{ratio:.3g}"


ONCE = "one of the targets has one run; repeat more: --repeat"
"""What is said of two targets that have no interval."""
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
    return _rows(folder, VERDICTS)[0]


def _rows(folder: TraceFolder, *names: str) -> list[list[dict[str, Any]]]:
    with query.connect(folder) as connection:
        return [list(query.run(connection, name).to_pylist()) for name in names]


def stand_ins(folder: TraceFolder) -> list[str]:
    """Return a sentence for each target that only stands for DAX: what it leaves out."""
    found = {
        run.target: run.memory.get("medium")
        for run in read_runs(folder)
        if run.memory and run.memory.get("stands_for_dax")
    }
    return [_stand_in(target, medium) for target, medium in sorted(found.items())]


def _stand_in(target: str, medium: Mapping[str, Any] | None) -> str:
    speed = "at the speed of this machine's"
    if medium:
        known = "name" in medium
        speed = describe_memory(Medium(**medium)) if known else "with times of an older version"
    return (
        f"{target} stands for a file system with DAX: it is one in memory alone, {speed}; its fsync"
        " and its own bookkeeping cost no medium anything, so DAX gains there at most what is said."
    )


def summarize_verdicts(verdicts: Sequence[Row]) -> list[str]:
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
    for _, group in groupby(sorted(rows, key=itemgetter(*keys)), key=itemgetter(*keys)):
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
    counts = Counter(row["verdict"] for row in rows)
    found = ", ".join(f"{verdict} in {counts[verdict]}" for verdict in HEADS if counts[verdict])
    text = f"{rows[0]['personality']}, {len(rows)} settings: {found}"
    if all(row["run_count"] == 1 for row in rows):
        text += f"; {ONCE}"
    known = sorted((row for row in rows if row["ratio"] is not None), key=itemgetter("ratio"))
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
        text += f"; {ONCE}"
    else:
        text += (
            f" ({times(row['ratio_low'])} to {times(row['ratio_high'])} with 95% confidence,"
            f" {row['run_count']} runs each)"
        )
    return text + (f"; {_reason(row)}" if row["step"] is not None else "")


def _reason(row: Row) -> str:
    if row["saved_ratio"] is None or row["mean_ns"] is None or row["other_mean_ns"] is None:
        return f"{row['step']} was not done on both"
    does = "saves" if row["saved_ratio"] >= 0 else "costs"
    return (
        f"{row['step']} {does} {format_share(abs(row['saved_ratio']))} of the time of all steps on"
        f" {row['other']}: it takes {format_duration(row['other_mean_ns'])} and"
        f" {format_share(row['other_time_ratio'])} of the time there,"
        f" {format_duration(row['mean_ns'])} and {format_share(row['time_ratio'])}"
        f" on {row['target']}"
    )


POINTS, RATIOS = "files/file_points", "files/target_ratios"


def show(line: str) -> None:
    """Say on a terminal which run is under way."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{escape(line)}\n")


def describe(swept: Swept) -> dict[str, Any]:
    """Return what a sweep found.

    A point is a row a personality, target, setting and step, mean and spread over the repeats.
    """
    names = (POINTS, RATIOS, VERDICTS)
    found = _rows(swept.folder, *names) if swept.has_results else [[] for _ in names]
    points, ratios, verdicts = found
    return {
        "folder": str(swept.folder.path),
        "made": swept.made,
        "kept": swept.kept,
        "ratios": ratios,
        "missing": swept.missing,
        "stopped_by": swept.stopped_by,
        "left_behind": list(swept.left_behind),
        "points": points,
        "failures": failures(swept.folder),
        "dax": verdicts,
    }


def headline(folder: TraceFolder, found: Mapping[str, Any]) -> list[str]:
    """Return a line a point, its rate with spread and what takes most of the time, and of DAX.

    `found` is what `describe` returned.
    """
    rows, verdicts = found["points"], found["dax"]
    varied = {
        name: varied_settings(one["settings"] for one in rows if one["personality"] == name)
        for name in {row["personality"] for row in rows}
    }
    lines = []
    for row in rows:
        if row["step"] != ALL:
            continue
        same = ("personality", "target", "settings")
        steps = [
            one for one in rows if one["step"] != ALL and all(one[key] == row[key] for key in same)
        ]
        name = setting_name(row, varied[row["personality"]])
        place = f"{row['personality']} on {row['target']}, {name}"
        lines.append(f"  {place}: {rate(row)}{_most(steps)}")
    dax = [*summarize_verdicts(verdicts), *stand_ins(folder)] if verdicts else []
    compared = [f"  {line}" for line in differences(found["ratios"])]
    return [
        *lines,
        *compared,
        *doubts(rows),
        *failures(folder),
        *queued(folder),
        *not_used(folder),
        *dax,
    ]


def queued(folder: TraceFolder) -> list[str]:
    """Return a line for each file of filebench whose asynchronous writes waited to be begun."""
    waits: dict[str, list[Mapping[str, Any]]] = {}
    dropped: Counter[str] = Counter()
    for one in read_runs(folder):
        if wait := one.summary.get("issue_error"):
            waits.setdefault(one.personality, []).append(wait)
        dropped[one.personality] += one.summary["counts"].get("dropped", 0)
    lines = []
    for name, of_runs in waits.items():
        count = sum(wait["count"] for wait in of_runs)
        mean_ns = sum(wait["count"] * wait["mean_ns"] for wait in of_runs) / count
        lines.append(
            f"  {name}: {count:,} asynchronous writes were queued for {format_duration(mean_ns)}"
            f" on average; {dropped[name]:,} were not begun when a run ended"
        )
    return lines


def not_used(folder: TraceFolder) -> list[str]:
    """Return a line for each file of filebench that says what changes nothing here."""
    found = {one.personality: one.not_used for one in read_runs(folder) if one.not_used}
    return [f"  {name}: no effect here: {'; '.join(words)}" for name, words in found.items()]


def differences(compared: Sequence[Row]) -> list[str]:
    """Return a line for each two targets of a setting: their ratio, and whether they differ."""
    varied = varied_settings(row["settings"] for row in compared)
    tests = sum(row["corrected_p_value"] is not None for row in compared)
    return [_difference(row, varied, tests) for row in compared]


def _difference(row: Row, varied: Sequence[str], tests: int) -> str:
    names = f"{row['personality']} ({setting_name(row, varied)}), {row['target']} by {row['other']}"
    if row["ratio"] is None:
        return f"{names}: one of them has not done any step"
    text = f"{names}: {times(row['ratio'])} times the steps"
    if row["ratio_low"] is None:
        return f"{text}, not decided: {ONCE}"
    of = f", Holm of {tests} comparisons" if tests > 1 else ""
    return (
        f"{text} ({times(row['ratio_low'])} to {times(row['ratio_high'])} with 95% confidence);"
        f" {row['verdict']} (p {row['corrected_p_value']:.2g}{of})"
    )


def doubts(points: Sequence[Row]) -> list[str]:
    """Return a line for each point whose runs are not what its interval takes them for."""
    lines = []
    for row in points:
        if row["step"] != ALL:
            continue
        place = f"  {row['personality']} on {row['target']}, {setting_name(row)}"
        runs = row["run_count"]
        if row["copy_count"]:
            lines.append(
                f"{place}: {row['copy_count']} of {runs + row['copy_count']} runs repeat the plan"
                " of another one, with --exact the same run again: they are in no figure; other"
                " seeds make other plans"
            )
        if row["unsteady_count"]:
            lines.append(
                f"{place}: {row['unsteady_count']} of {runs} runs were not steady (MSER-5) in the"
                " first half of their time, or too short to say: longer --duration or --warm-up"
            )
        elif row["run_count"] == 1 and row["rate_low_per_second"] is None:
            lines.append(
                f"{place}: its one run was at another rate once steady (MSER-5), so that it has no"
                " interval: --warm-up, or repeat more: --repeat"
            )
        if row["outlier_count"]:
            lines.append(f"{place}: {row['outlier_count']} of {runs} runs stand out; they count")
    return lines


def failures(folder: TraceFolder) -> list[str]:
    """Return a line for each error of each operation, with how often it came in all runs."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for result in read_runs(folder):
        for error in result.summary["errors"]:
            meaning = f"{error['meaning']} ({error['name']})"
            key = (result.personality, result.target, error["operation"], meaning)
            counts[key] += error["count"]
    return [
        f"  {personality} on {target}: {operation} failed {count:,} times: {meaning}"
        for (personality, target, operation, meaning), count in sorted(counts.items())
    ]


def _most(steps: list[dict[str, Any]]) -> str:
    if not steps:
        return ""
    top = max(steps, key=lambda one: one["time_ratio"])
    failed = sum(one["failed"] for one in steps)
    text = f"; {top['step']} takes {format_share(top['time_ratio'])} of the time"
    return text + (f"; {failed:,} steps failed" if failed else "")
