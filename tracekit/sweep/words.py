"""Says what a sweep found, in rows and in sentences."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

from tracekit import query
from tracekit.errors import PartialError
from tracekit.store import TraceFolder
from tracekit.sweep.answer import ALL
from tracekit.sweep.dax import find_verdicts, stand_ins
from tracekit.sweep.dax import summarize as summarize_dax
from tracekit.sweep.points import percent, rate, setting_name, varied_settings
from tracekit.sweep.stage import Swept, read_results

POINTS = "files/file_points"


def show(line: str) -> None:
    """Say on a terminal which run is under way."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{line}\n")


def tell(swept: Swept, *, as_json: bool) -> str:
    """Return what a sweep found, for people or as JSON."""
    if as_json:
        told = {
            "folder": str(swept.folder.path),
            "made": swept.made,
            "kept": swept.kept,
            "missing": swept.missing,
            "points": summarize(swept.folder) if swept.has_results else [],
            "failures": failures(swept.folder),
            "dax": find_verdicts(swept.folder) if swept.has_results else [],
        }
        return json.dumps(told, indent=2)
    made = f"{swept.made} run{'' if swept.made == 1 else 's'} made"
    lines = [f"{made}, {swept.kept} there before, {swept.folder.path}"]
    return "\n".join([*lines, *(headline(swept.folder) if swept.has_results else [])])


def check_complete(swept: Swept) -> None:
    """Raise PartialError when runs are missing."""
    if swept.missing:
        count = len(swept.missing)
        raise PartialError(
            f"{count} {'run is' if count == 1 else 'runs are'} missing: {swept.missing[0]}",
            hint="what was done is kept; the same command goes on",
        )


def summarize(folder: TraceFolder) -> list[dict[str, Any]]:
    """Return one row a personality, target, setting and step, mean and spread over the repeats."""
    with query.connect(folder) as connection:
        return list(query.run(connection, POINTS).to_pylist())


def headline(folder: TraceFolder) -> list[str]:
    """Return a line a point, its rate with spread and what takes most of the time, and of DAX."""
    rows = summarize(folder)
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
    verdicts = find_verdicts(folder)
    told = [*summarize_dax(verdicts), *stand_ins(folder)] if verdicts else []
    return [*lines, *failures(folder), *told]


def failures(folder: TraceFolder) -> list[str]:
    """Return a line for each error of each operation, with how often it came in all runs."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for result in read_results(folder):
        for error in result["summary"]["errors"]:
            meaning = f"{error['meaning']} ({error['name']})"
            key = (result["personality"], result["target"], error["operation"], meaning)
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
    text = f"; {top['step']} takes {percent(top['time_ratio'])} of the time"
    return text + (f"; {failed:,} steps failed" if failed else "")
