"""Files: traced and replayed calls, runs of file workloads, what DAX would save."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Key, Size, Variable
from tracekit.report.formatting import largest, sentence
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Chart, Parts, chart, section
from tracekit.report.sections.replay import draw_ratios
from tracekit.sweep.summary import (
    NAMED,
    differences,
    doubts,
    paragraphs,
    setting_word,
    stand_ins,
)
from tracekit.sweep.summary import varied_settings as settings_of


def draw_file_operations(table: pd.DataFrame, size: Size) -> Figure:
    """Draw one line an operation: from the mean (a dot) to the 99 % (a bar), one a `place`."""
    operations = list(dict.fromkeys(table["operation"]))
    places = int(table["place"].max()) + 1
    figure, axes = charts.rows_canvas(
        operations,
        size,
        x_title="time of a call",
        margin_px=90,
        row_px=14 + 8 * places,
        ends=(0.6, 0.6),
    )
    step = 0.7 / places
    for row in table.to_dict("records"):
        at = operations.index(row["operation"]) + (row["place"] - (places - 1) / 2) * step
        colour = charts.light(("quiet", *REPLAY_COLOURS)[int(row["place"])])
        mean_ns, most_ns = (max(float(row[f"latency_{key}_ns"]), 1.0) for key in ("avg", "p99"))
        axes.plot(sorted((mean_ns, most_ns)), [at, at], color=colour)
        axes.plot([mean_ns], [at], color=colour, marker="o", markersize=5)
        axes.plot([most_ns], [at], color=colour, marker="|", markersize=8)
    charts.log_axis(axes.xaxis, fmt.duration, size=size)
    charts.finish(axes)
    return figure


REPLAY_COLOURS = ("blue", "orange", "green", "grey")
"""Of the replays, in the order of their names; those beyond are in the table only."""


@section("File operations")
def file_operations(inputs: Inputs) -> Parts | None:
    """Show calls, traced and replayed; nothing for a trace without file operations."""
    if not inputs.folder.has("file_operations"):
        return None
    calls = inputs.computed("files/file_calls")
    replays = inputs.computed("files/replayed_file_calls") if inputs.has_file_replays else None
    files = inputs.computed("files/busiest_files")
    bars, names = side_by_side(calls.table, None if replays is None else replays.table)
    drawn = chart(
        draw_file_operations,
        calls.showing(bars),
        title="Time of a call by operation, mean and 99%",
        sentences=describe_file_operations(calls.table, inputs.info),
        legend=[Key("quiet", "traced"), *map(Key, REPLAY_COLOURS, names)],
        name="file-operations",
    )
    return {
        "figure": drawn,
        "replays": replays,
        "processes": inputs.computed("files/file_processes"),
        "files": replace(
            files, table=files.table.assign(path=files.table["path"].map(fmt.printable))
        ),
        "overhead": overhead(inputs.info),
    }


def side_by_side(
    traced: pd.DataFrame, replayed: pd.DataFrame | None
) -> tuple[pd.DataFrame, list[str]]:
    """Return the times of each operation, `place` 0 traced and the replays behind, and their names.

    Operations without the end of a call are left out.
    """
    parts = [traced.assign(place=0)]
    names: list[str] = []
    if replayed is not None:
        names = sorted(set(replayed["replay"]))[: len(REPLAY_COLOURS)]
        parts += [
            replayed[replayed["replay"] == name].assign(place=place)
            for place, name in enumerate(names, 1)
        ]
    columns = ["operation", "place", "latency_avg_ns", "latency_p99_ns"]
    table = pd.concat([part[columns] for part in parts], ignore_index=True)
    order = {name: place for place, name in enumerate(traced["operation"])}
    table = table.dropna(subset=["latency_avg_ns"])
    table = table.assign(rank=table["operation"].map(order).fillna(len(order)))
    return table.sort_values(["rank", "place"], ignore_index=True), names


def describe_file_operations(calls: pd.DataFrame, info: Mapping[str, Any]) -> list[str]:
    """Describe how much was done, and what led."""
    if calls.empty:
        return ["The trace holds no file operation."]
    total = int(calls["call_count"].sum())
    first = calls.iloc[0]
    moved = int(calls["moved_bytes"].sum())
    seconds = fmt.duration(info.get("clock", {}).get("duration_ns"))
    return [
        f"{fmt.count(total)} calls in {seconds}, {fmt.share(first['call_count'] / total)} of them"
        f" {first['operation']}; {fmt.data(moved)} were read and written.",
    ]


def overhead(info: Mapping[str, Any]) -> str:
    """Describe what tracing cost."""
    cost = info.get("capture", {}).get("overhead") or {}
    if cost.get("ratio"):
        text = (
            "The command took {traced_ns:duration} while it was traced and {untraced_ns:duration}"
            " without."
        )
        return sentence(text, cost)
    if cost.get("call_ns"):
        text = (
            "Tracing made a call about {call_ns:duration} longer, of which {duration_ns:duration}"
            " are in the times shown as traced."
        )
        return sentence(text, cost)
    return ""


BELOW = 0.42  # the bar, where the line crosses no number


def draw_rates(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `steps_per_second` of each `kind` in its `colour`, with its confidence interval."""
    whole = table.assign(steps_per_second=table["steps_per_second"].round())
    figure = charts.role_bars(whole, size, value="steps_per_second", x_title="steps a second")
    axes = figure.axes[0]
    for place, row in enumerate(table.to_dict("records")):
        ends = [row["rate_low_per_second"], row["rate_high_per_second"]]
        axes.plot(ends, [place + BELOW, place + BELOW], color=charts.light("ink"), linewidth=1.5)
    charts.write_ticks(axes.xaxis, fmt.count)
    return figure


def draw_breakdown(table: pd.DataFrame, size: Size) -> Figure:
    """Draw each `kind` as one bar of its steps' `time_ratio`, each in its `colour`."""
    x_title = "share of the time of all steps"
    figure = charts.stacked_bars(table, size, value="time_ratio", x_title=x_title)
    figure.axes[0].set_xlim(0, 1)
    return figure


def _repeated(y: Variable, table: pd.DataFrame, size: Size, *, x: Variable) -> Figure:
    """Draw curves over `x`, both axes logarithmic, one a `kind` in its `colour` and `line`.

    A point has the spread of its repeats as a line.
    """
    figure, axes = charts.canvas(size, x_title=x.title, y_title=y.title)
    ends = ("low_ns", "high_ns") if y is TIME else ("rate_low_per_second", "rate_high_per_second")
    low, high = ends
    for _, curve in table.groupby("kind", sort=False):
        drawn = curve.sort_values(x.column)
        key = _key(drawn)
        columns = (x.column, y.column, low, high)
        xs, ys, lows, highs = (drawn[name].astype(float).tolist() for name in columns)
        axes.vlines(xs, lows, highs, color=charts.light(key.colour), linewidth=1)
        charts.draw_curve(axes, key, x=xs, y=ys, markersize=5)
    y.scale(axes.yaxis, highest=table[y.column].max(), size=size)
    x.scale(axes.xaxis, highest=table[x.column].max(), size=size)
    if x.scale is _whole_numbers:
        values = sorted(set(table[x.column]))
        axes.xaxis.set_major_locator(FixedLocator([float(value) for value in values]))
    charts.finish(axes)
    return figure


def _whole_numbers(axis: Axis, **_: Any) -> None:
    axis.axes.set_xscale("log", base=2)
    axis.set_minor_locator(NullLocator())
    charts.write_ticks(axis, fmt.count)


RATE = Variable("steps_per_second", "Steps a second", charts.log_count_axis)
TIME = Variable("mean_ns", "Mean time of a step", charts.log_time_axis)
draw_rate_over_size = partial(
    _repeated, RATE, x=Variable("io_bytes", "bytes of a call", charts.log_data_axis)
)
draw_latency_over_threads = partial(
    _repeated, TIME, x=Variable("threads", "threads", _whole_numbers)
)
draw_rate_over_files = partial(_repeated, RATE, x=Variable("files", "files", _whole_numbers))


def _key(curve: pd.DataFrame) -> Key:
    """Return the legend's entry of a curve, of rows that say its kind, colour and line."""
    first = curve.iloc[0]
    return Key(str(first["colour"]), str(first["kind"]), str(first.get("line", "solid")))


MOST_CALL_CURVES = 9
POINT = ["personality", "target", "settings"]


def call_times(inputs: Inputs, shown: pd.DataFrame, *, steps: pd.DataFrame) -> list[Chart]:
    """Draw the calls of the step that takes most of the time of each personality, a curve a target.

    `shown` are the points that the section shows, `steps` their steps; no figure without rows.
    """
    if not inputs.folder.files("files/operations/*.parquet"):
        return []
    calls = inputs.computed("files/call_distribution")
    known = calls.table.merge(shown[[*POINT, "kind"]], on=POINT)
    table = costliest(known, steps)
    if table.empty:
        return []
    sentences = [
        "Calls of the step that takes most of the time of each workload, over all targets."
    ]
    left_out = known["kind"].nunique() - table["kind"].nunique()
    if left_out:
        sentences.append(
            f"{left_out} more workloads and targets have no curve here, for lack of space."
        )
    drawn = chart(
        charts.cumulative_times("time of a call", "Calls that took this long or less"),
        calls.showing(table),
        title="How long a call takes at the costliest step",
        sentences=sentences,
        legend=[_key(part) for _, part in table.groupby("kind", sort=False)],
        name="file-call-times",
    )
    return [drawn]


def costliest(calls: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Return the calls of each personality's costliest step, over all points; a colour a point."""
    shares = steps.groupby(["personality", "step"])["time_ratio"].sum().reset_index()
    top = shares.sort_values("time_ratio").drop_duplicates("personality", keep="last")
    chosen = calls.merge(top[["personality", "step"]], on=["personality", "step"])
    kinds = [f"{kind}: {step}" for kind, step in zip(chosen["kind"], chosen["step"], strict=True)]
    known = list(dict.fromkeys(kinds))[:MOST_CALL_CURVES]
    named = chosen.assign(kind=kinds)
    named = named[named["kind"].isin(known)]
    colours = charts.series()
    return named.assign(colour=[colours[known.index(kind)] for kind in named["kind"]])


ALL = "all"
STEP_COLOURS = {
    "read_file": "read",
    "read": "read",
    "write_file": "write",
    "write": "write",
    "append": "purple",
    "fsync": "flush",
    "fdatasync": "flush",
    "create": "blue",
    "open": "green",
    "delete": "orange",
    "stat": "indigo",
    "close": "grey",
}
AXES = ("threads", "files", "io_bytes")
TIMES = (
    *("kind", "step", "run_count", "mean_ns", "p99_ns", "time_ratio", "steps_per_second"),
    *("deviation_per_second", "failed"),
)
MOST_BARS = 12  # more settings than that are in the curves only, more sentences in tables
CURVE_LINES = ("solid", "dashed", "dotted", "dashdot")
CURVES = {
    "io_bytes": ("Rate against the size of a call", draw_rate_over_size),
    "threads": ("Time of a step against threads", draw_latency_over_threads),
    "files": ("Rate against the number of files", draw_rate_over_files),
}


@section("What servers and programs get of a file system")
def file_runs(inputs: Inputs) -> Parts | None:
    """Show what was run; nothing when nobody has run a personality."""
    if not inputs.folder.has("files/file_comparisons"):
        return None
    points = inputs.computed("files/file_points")
    if points.table.empty:
        return None
    table = named_runs(points.table)
    whole = table[table["step"] == ALL].reset_index(drop=True)
    shown = whole if len(whole) <= MOST_BARS else usual_settings(whole)
    steps = table[(table["step"] != ALL) & table["kind"].isin(set(shown["kind"]))]
    # What all of the shown ones have in common is no part of their names.
    shown, steps = shown.assign(kind=run_kinds(shown)), steps.assign(kind=run_kinds(steps))
    ratios = inputs.computed("files/target_ratios")
    return {
        "sentences": describe_runs(whole, ratios.table),
        "figures": [
            _rates(points, shown, settings=len(whole)),
            *_target_ratios(ratios),
            _breakdown(points, steps),
            *call_times(inputs, shown, steps=steps),
            *_curves(points, whole),
        ],
        "times": replace(points, table=step_times(table)),
    }


def named_runs(table: pd.DataFrame) -> pd.DataFrame:
    """Return the points with a `kind` that tells each from the others, and a colour."""
    names = list(dict.fromkeys(table["personality"]))
    colours = charts.series()
    chosen = [colours[names.index(name) % len(colours)] for name in table["personality"]]
    return table.assign(kind=run_kinds(table), colour=chosen)


def run_kinds(table: pd.DataFrame) -> list[str]:
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
    return [
        f"{fmt.data(settings[key])} a call"
        if key == "io_size"
        else setting_word(key, settings[key])
        for key in keys
        if key in settings and not (key == "append_size" and "io_size" in keys)
    ]


def describe_runs(whole: pd.DataFrame, ratios: pd.DataFrame) -> list[str]:
    """Describe what was run, and how one target compares with another."""
    runs = int(whole["run_count"].sum())
    lines = [
        f"{fmt.plural(runs, 'run')} of {fmt.plural(len(whole), 'setting')}."
        " A step is what a personality calls an operation; rates are of all threads together."
    ]
    lines += _first(differences(plain_rows(ratios)), "more comparison", "target_ratios")
    lines += _first(doubts(plain_rows(whole)), "more doubt", "file_points")
    failed = int(whole["failed"].sum())
    return [*lines, *([f"{fmt.count(failed)} steps failed."] if failed else [])]


def _first(lines: list[str], noun: str, table: str) -> list[str]:
    """Return the first lines as sentences, and how many more there are in which table."""
    shown = [f"{line.strip()}." for line in lines[:MOST_BARS]]
    left = len(lines) - len(shown)
    return [*shown, *([f"{fmt.plural(left, noun)} in the table {table}."] if left else [])]


def plain_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows with None for what is missing."""
    return [
        {str(key): None if fmt.is_missing(value) else value for key, value in row.items()}
        for row in table.to_dict("records")
    ]


def step_times(table: pd.DataFrame) -> pd.DataFrame:
    """Return every step of every point, the costliest first, with what a reader compares."""
    order = {kind: place for place, kind in enumerate(dict.fromkeys(table["kind"]))}
    ranked = table.assign(place=table["kind"].map(order), kind=run_kinds(table))
    ranked = ranked[ranked["step"] != ALL].sort_values(
        ["place", "time_ratio"], ascending=[True, False]
    )
    return ranked[list(TIMES)].reset_index(drop=True)


def usual_settings(whole: pd.DataFrame) -> pd.DataFrame:
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


def _rates(points: Evidence, shown: pd.DataFrame, *, settings: int) -> Chart:
    lines = ["Mean of the repeats; the line is its 95% confidence interval."]
    if len(shown) < settings:
        count = fmt.count(settings - len(shown))
        lines.append(f"{count} more settings are in the curves below and in the table.")
    return chart(
        draw_rates,
        points.showing(shown),
        title="Steps a second",
        sentences=lines,
        name="file-rates",
    )


def _target_ratios(ratios: Evidence) -> list[Chart]:
    """Draw the rate of each target by another's; nothing of one target."""
    known = ratios.table.dropna(subset=["ratio"])
    if known.empty:
        return []
    shown = named_pairs(known)
    colours = ["blue" if verdict == "differs" else "grey" for verdict in shown["verdict"]]
    words = {"blue": "differs", "grey": "not shown to differ"}
    drawn = chart(
        partial(draw_ratios, x_title="steps a second, by those of the other target"),
        ratios.showing(shown.assign(colour=colours)),
        title="Targets beside each other",
        sentences=[
            "Lines are 95% confidence intervals; p-values are corrected by Holm over all pairs.",
            *_left_out(known, shown),
        ],
        legend=tuple(Key(colour, word) for colour, word in words.items() if colour in colours),
        name="file-ratios",
    )
    return [drawn]


def _breakdown(points: Evidence, steps: pd.DataFrame) -> Chart:
    table, legend = _by_step(steps, "time_ratio")
    table = table.sort_values(["kind", "rank"]).reset_index(drop=True)
    text = "The largest share is that of {step} of {kind}: {time_ratio:share}."
    return chart(
        draw_breakdown,
        points.showing(table),
        title="Where the time goes",
        sentences=[sentence(text, largest(table, "time_ratio"))],
        legend=legend,
        name="file-breakdown",
    )


def _by_step(table: pd.DataFrame, column: str) -> tuple[pd.DataFrame, tuple[Key, ...]]:
    """Return the rows with `colour` and `rank` of their steps, the largest first; the legend."""
    sums = table[column].abs().groupby(table["step"]).sum().sort_values(ascending=False)
    ranks = {str(step): rank for rank, step in enumerate(sums.index)}
    ranked = table.assign(
        colour=[step_colour(step) for step in table["step"]], rank=table["step"].map(ranks)
    )
    return ranked, tuple(Key(step_colour(step), step.replace("_", " ")) for step in ranks)


def step_colour(step: str) -> str:
    """Return the colour of a step: a label of a user's own has that of the unknown."""
    return STEP_COLOURS.get(step, "silver")


def _curves(points: Evidence, whole: pd.DataFrame) -> list[Chart]:
    """Draw what was varied, all else as in the first setting of each personality."""
    varied = {column: one_varied(whole, column) for column in CURVES}
    return [
        chart(
            draw,
            points.showing(varied[column]),
            title=title,
            sentences=[
                "Both axes are logarithmic; all else is as it is in most of the settings.",
                "The line at a point goes from the lowest repeat to the highest."
                if column == "threads"
                else "The line at a point is its 95% confidence interval over the repeats.",
            ],
            legend=[_key(part) for _, part in varied[column].groupby("kind", sort=False)],
            name=f"file-{column.replace('_', '-')}",
        )
        for column, (title, draw) in CURVES.items()
        if not varied[column].empty
    ]


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
            curves.append(held.assign(kind=f"{personality} on {target}", colour=colour, line=line))
    return pd.concat(curves, ignore_index=True) if curves else whole.iloc[:0]


def _look(whole: pd.DataFrame, personality: str, target: str) -> tuple[str, str]:
    """Return colour and line of a curve; more targets than lines take further colours."""
    personalities = list(dict.fromkeys(whole["personality"]))
    round_, line = divmod(list(dict.fromkeys(whole["target"])).index(target), len(CURVE_LINES))
    colour = personalities.index(personality) + round_ * len(personalities)
    colours = charts.series()
    return colours[colour % len(colours)], CURVE_LINES[line]


def draw_savings(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `saved_ratio` of the steps of each `kind`; a dot is the sum."""
    x_title = "share of the time on the other target"
    figure = charts.stacked_bars(table, size, value="saved_ratio", x_title=x_title)
    sums = table.groupby("kind", sort=False)["saved_ratio"].sum()
    axes = figure.axes[0]
    axes.plot(list(sums), range(len(sums)), "o", color=charts.light("ink"), markersize=5)
    axes.axvline(0, color=charts.light("quiet"), linewidth=1)
    return figure


MOST_KINDS = 24  # more settings than that are in words and in the table only
VERDICTS = ("pays", "does not pay", "no difference", "not decided")


@section("Where DAX pays")
def dax(inputs: Inputs) -> Parts | None:
    """Compare targets; nothing unless a sweep has targets with and without DAX."""
    if not inputs.folder.has("files/file_comparisons"):
        return None
    verdicts = inputs.computed("files/dax_verdicts")
    if verdicts.table.empty:
        return None
    rows = plain_rows(verdicts.table)
    figures = [_ratios(verdicts), _savings(inputs.computed("files/dax_savings"))]
    return {"pairs": paragraphs(rows), "figures": figures, "notes": stand_ins(inputs.folder)}


def named_pairs(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the first MOST_KINDS settings and pairs, each with its `kind` in words."""
    varied = varied_settings(table)
    kinds = [
        ", ".join([f"{row['personality']}, {row['other']}", *varied_words(row, varied)])
        for row in table.to_dict("records")
    ]
    if table["target"].nunique() > 1:
        pairs = zip(kinds, table["target"], strict=True)
        kinds = [f"{kind} ({target})" for kind, target in pairs]
    found = table.assign(kind=kinds)
    return found[found["kind"].isin(list(dict.fromkeys(kinds))[:MOST_KINDS])]


def _left_out(table: pd.DataFrame, shown: pd.DataFrame) -> list[str]:
    keys = ["personality", "other", "target", "threads", "settings"]
    count = len(table.drop_duplicates(keys)) - len(shown.drop_duplicates(keys))
    return [f"{fmt.count(count)} more settings are in the table."] if count else []


def _ratios(verdicts: Evidence) -> Chart:
    shown = named_pairs(verdicts.table.dropna(subset=["ratio"]))
    present = [verdict for verdict in VERDICTS if verdict in set(shown["verdict"])]
    return chart(
        partial(draw_ratios, x_title="steps a second with DAX by those without"),
        verdicts.showing(shown.assign(colour=shown["verdict"])),
        title="Rates with DAX beside those without",
        sentences=["Lines are 95% confidence intervals.", *_left_out(verdicts.table, shown)],
        legend=tuple(Key(verdict, verdict) for verdict in present),
        name="dax-ratios",
    )


def _savings(savings: Evidence) -> Chart:
    table, legend = _by_step(savings.table.dropna(subset=["saved_ratio"]), "saved_ratio")
    shown = named_pairs(table)
    return chart(
        draw_savings,
        savings.showing(shown),
        title="Time that DAX saves at each step",
        sentences=[
            "To the right what DAX saves, to the left what it costs; the dot is both together.",
            *_left_out(table, shown),
        ],
        legend=legend,
        name="dax-savings",
    )
