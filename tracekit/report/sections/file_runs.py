"""What personalities did on directories: rates, where the time goes, and what changes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.file_breakdown import file_breakdown
from tracekit.report.figures.file_curves import (
    latency_over_threads,
    rate_over_files,
    rate_over_size,
)
from tracekit.report.figures.file_rates import file_rates
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Figure, Key, Section, figure
from tracekit.report.sections.file_times import call_times
from tracekit.sweep.summary import NAMED, setting_word
from tracekit.sweep.summary import varied_settings as settings_of

TITLE = "What servers and programs get of a file system"
ALL = "all"
CURVE_COLOURS = (
    *("fs", "journal", "swap", "combined", "write", "discard", "flush", "heat", "read", "other"),
)
STEP_COLOURS = {
    "read_file": "read",
    "read": "read",
    "write_file": "write",
    "write": "write",
    "append": "combined",
    "fsync": "flush",
    "fdatasync": "flush",
    "create": "fs",
    "open": "swap",
    "delete": "journal",
    "stat": "discard",
    "close": "other",
}
AXES = ("threads", "files", "io_bytes")
TIMES = (
    *("kind", "step", "run_count", "mean_ns", "p99_ns", "time_ratio", "steps_per_second"),
    *("deviation_per_second", "failed"),
)
MOST_BARS = 12  # more settings than that are told by the curves
CURVE_LINES = ("solid", "dashed", "dotted", "dashdot")
CURVES: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    ("io_bytes", "Rate against the size of a call", rate_over_size),
    ("threads", "Time of a step against threads", latency_over_threads),
    ("files", "Rate against the number of files", rate_over_files),
)


def file_runs(inputs: Inputs) -> Section | None:
    """Build the section; None when nobody has run a personality."""
    if not inputs.folder.has("files/file_runs"):
        return None
    points = inputs.computed("files/file_points")
    if points.table.empty:
        return None
    table = named(points.table)
    whole = table[table["step"] == ALL].reset_index(drop=True)
    shown = whole if len(whole) <= MOST_BARS else usual(whole)
    steps = table[(table["step"] != ALL) & table["kind"].isin(set(shown["kind"]))]
    # What all of the shown ones have in common is no part of their names.
    shown, steps = shown.assign(kind=kinds(shown)), steps.assign(kind=kinds(steps))
    parts = {
        "says": says(whole, shown),
        "figures": [
            _rates(replace(points, table=shown), len(whole)),
            _breakdown(replace(points, table=steps)),
            *call_times(inputs, shown, steps=steps),
            *_curves(points, whole),
        ],
        "times": replace(points, table=step_times(table)),
    }
    return Section("file_runs", TITLE, parts)


def named(table: pd.DataFrame) -> pd.DataFrame:
    """Return the points with a `kind` that tells each from the others, and a colour as `role`."""
    names = list(dict.fromkeys(table["personality"]))
    roles = [CURVE_COLOURS[names.index(name) % len(CURVE_COLOURS)] for name in table["personality"]]
    return table.assign(kind=kinds(table), role=roles)


def kinds(table: pd.DataFrame) -> list[str]:
    """Return what tells each point from the others: personality, target, and settings that vary."""
    varied = varied_settings(table)
    return [
        ", ".join([f"{row['personality']} on {row['target']}", *varied_words(row, varied)])
        for row in table.to_dict("records")
    ]


def varied_settings(table: pd.DataFrame) -> list[str]:
    """Return the parameters that differ between points of one personality."""
    groups = table.groupby("personality")["settings"]
    return list(dict.fromkeys(key for _, texts in groups for key in settings_of(texts)))


def varied_words(row: Mapping[Any, Any], keys: list[str]) -> list[str]:
    """Write the settings of those keys that a point has."""
    settings = json.loads(row["settings"])
    words = []
    for key in keys:
        if key in settings and not (key == "append_size" and "io_size" in keys):
            value = settings[key]
            words.append(
                f"{fmt.data(value)} a call" if key == "io_size" else setting_word(key, value)
            )
    return words


def says(whole: pd.DataFrame, shown: pd.DataFrame) -> list[str]:
    """Say what was run, and how one target compares with another."""
    runs = int(whole["run_count"].sum())
    lines = [
        f"{fmt.plural(runs, 'run')} of {fmt.plural(len(whole), 'setting')}."
        " A step is what a personality calls an operation; rates are of all threads together."
    ]
    varied = varied_settings(whole)
    for _, group in shown.groupby(["personality", "settings"], sort=False):
        ranked = group.sort_values("steps_per_second").to_dict("records")
        worst, best = ranked[0], ranked[-1]
        if len(ranked) > 1 and worst["steps_per_second"] > 0:
            ratio = best["steps_per_second"] / worst["steps_per_second"]
            words = varied_words(best, varied)
            lines.append(
                f"{best['personality']}: {best['target']} does {ratio:.3g} times the steps of"
                f" {worst['target']}{_in_brackets(words)}."
            )
    failed = int(whole["failed"].sum())
    return [*lines, *([f"{fmt.count(failed)} steps failed."] if failed else [])]


def _in_brackets(words: list[str]) -> str:
    return f" ({', '.join(words)})" if words else ""


def step_times(table: pd.DataFrame) -> pd.DataFrame:
    """Return every step of every point, the costliest first, with what a reader compares."""
    order = {kind: place for place, kind in enumerate(dict.fromkeys(table["kind"]))}
    ranked = table.assign(place=table["kind"].map(order), kind=kinds(table))
    ranked = ranked[ranked["step"] != ALL].sort_values(
        ["place", "time_ratio"], ascending=[True, False]
    )
    return ranked[list(TIMES)].reset_index(drop=True)


def usual(whole: pd.DataFrame) -> pd.DataFrame:
    """Return of each personality and target the points whose settings are the most frequent."""
    groups = whole.groupby(["personality", "target"], sort=False)
    return pd.concat([_held(group, AXES) for _, group in groups], ignore_index=True)


def _held(group: pd.DataFrame, columns: tuple[str, ...]) -> pd.DataFrame:
    for column in columns:
        group = _most_frequent(group, group[column])
    # What no axis names, such as other files or caches: mixed, a curve would be of neither.
    return _most_frequent(group, group["settings"].map(_other_settings))


def _most_frequent(group: pd.DataFrame, values: pd.Series[Any]) -> pd.DataFrame:
    common = values.mode()
    return group[values == common.iloc[-1]] if len(common) else group


def _other_settings(text: str) -> str:
    settings = json.loads(text)
    return json.dumps({key: value for key, value in settings.items() if key not in NAMED})


def _rates(shown: Evidence, settings: int) -> Figure:
    lines = ["Mean of the repeats; the line goes from the slowest to the fastest."]
    if len(shown.table) < settings:
        count = fmt.count(settings - len(shown.table))
        lines.append(f"{count} more settings are in the curves below and in the table.")
    return figure(
        file_rates,
        shown,
        title="Steps a second",
        says=lines,
        name="file-rates",
    )


def _breakdown(steps: Evidence) -> Figure:
    table = steps.table.assign(role=[step_colour(step) for step in steps.table["step"]])
    order = table.groupby("step")["time_ratio"].sum().sort_values(ascending=False).index
    ranks = {step: rank for rank, step in enumerate(order)}
    table = table.assign(rank=table["step"].map(ranks)).sort_values(["kind", "rank"])
    top = max(table.to_dict("records"), key=lambda row: row["time_ratio"])
    share = fmt.share(top["time_ratio"])
    return figure(
        file_breakdown,
        replace(steps, table=table.reset_index(drop=True)),
        title="Where the time goes",
        says=[f"The largest share is that of {top['step']} of {top['kind']}: {share}."],
        legend=tuple(Key(step_colour(str(step)), str(step).replace("_", " ")) for step in order),
        name="file-breakdown",
    )


def step_colour(step: str) -> str:
    """Return the colour of a step: a label of a user's own has that of the unknown."""
    return STEP_COLOURS.get(step, "unknown")


def _curves(points: Evidence, whole: pd.DataFrame) -> list[Figure]:
    """Draw what was varied, all else as in the first setting of each personality."""
    found = []
    for column, title, draw in CURVES:
        table = one_varied(whole, column)
        if table.empty:
            continue
        legend = [
            Key(str(part["role"].iloc[0]), str(kind), str(part["line"].iloc[0]))
            for kind, part in table.groupby("kind", sort=False)
        ]
        found.append(
            figure(
                draw,
                replace(points, table=table),
                title=title,
                says=[
                    "Both axes are logarithmic; all else is as it is in most of the settings.",
                    "The line at a point goes from the lowest repeat to the highest.",
                ],
                legend=tuple(legend),
                name=f"file-{column.replace('_', '-')}",
            )
        )
    return found


def one_varied(whole: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return curves over one column; personalities have a colour each, targets a `line` each.

    What else differs is held at its most frequent value; a curve has two points or more.
    """
    others = tuple(name for name in AXES if name != column)
    curves: list[pd.DataFrame] = []
    for (personality, target), group in whole.groupby(["personality", "target"], sort=False):
        held = _held(group, others).dropna(subset=[column]).drop_duplicates(column)
        if len(held) > 1:
            colour, line = _look(whole, str(personality), str(target))
            curves.append(held.assign(kind=f"{personality} on {target}", role=colour, line=line))
    return pd.concat(curves, ignore_index=True) if curves else whole.iloc[:0]


def _look(whole: pd.DataFrame, personality: str, target: str) -> tuple[str, str]:
    """Return colour and line of a curve; more targets than lines take further colours."""
    personalities = list(dict.fromkeys(whole["personality"]))
    round_, line = divmod(list(dict.fromkeys(whole["target"])).index(target), len(CURVE_LINES))
    colour = personalities.index(personality) + round_ * len(personalities)
    return CURVE_COLOURS[colour % len(CURVE_COLOURS)], CURVE_LINES[line]
