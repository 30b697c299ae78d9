"""Replays: lateness and response times, their course, comparisons, how well a profile fits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from tracekit.replay.player import describe_submission
from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Size
from tracekit.report.formatting import every_window, largest, rows
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Chart, Key, Missing, Section, chart, role_keys


def draw_distribution(table: pd.DataFrame, size: Size, *, x_title: str) -> Figure:
    """Draw one step curve a role, for one replay and one measure."""
    return charts.cumulative_times(
        table, size, x_title=x_title, y_title="Requests that took this long or less"
    )


def draw_service(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `service_p50_ns` (dashed) and `service_p99_ns` over `window_ns`, by `role`."""
    figure, axes = charts.canvas(size, x_title="time since the start", y_title="Service time")
    for role, curve in table.groupby("role", sort=True):
        for value, line in (("service_p50_ns", "dashed"), ("service_p99_ns", "solid")):
            axes.plot(
                curve["window_ns"].astype(float),
                curve[value].astype(float).clip(lower=1),
                color=charts.light(str(role)),
                linestyle=line,
                marker=".",
                markersize=4,
            )
    charts.time_axis(axes.xaxis, table["window_ns"].max())
    charts.log_axis(axes.yaxis, fmt.duration, size=size)
    charts.finish(axes)
    return figure


def draw_histogram(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `request_count` of each bucket from `low_ns` to `high_ns`, by `role`."""
    figure, axes = charts.canvas(size, x_title="submitted to completed", y_title="Requests")
    for role, found in table.groupby("role", sort=True):
        for low, high, count in zip(
            found["low_ns"].clip(lower=1), found["high_ns"].clip(lower=2), found["request_count"],
            strict=True,
        ):  # fmt: skip
            axes.fill_between(
                [float(low), float(high)], [float(count)] * 2, color=charts.light(str(role)),
                alpha=0.6, linewidth=0.5,
            )  # fmt: skip
    charts.log_axis(axes.xaxis, fmt.duration, size=size)
    charts.write_ticks(axes.yaxis, fmt.count)
    axes.set_ylim(bottom=0)
    charts.finish(axes)
    return figure


OWN_COLOURS = ("read", "write", "flush")
BARE_WINDOWS = 3  # fewer windows are no course


def course(over_time: Evidence, distribution: Evidence, *, name: str) -> list[Chart]:
    """Return the figures of one replay; none of a run that had no request done."""
    table = over_time.table
    drawn = []
    if table["window_number"].nunique() >= BARE_WINDOWS:
        drawn = [_throughput(over_time, name), _service(over_time, name)]
    service = distribution.table[distribution.table["measure"] == "service"]
    if not service.empty:
        shown = chart(
            draw_histogram,
            distribution.showing(service),
            title="Histogram of service times",
            sentences=[],
            legend=role_keys(service),
            name=f"replay-{fmt.anchor(name)}-histogram",
        )
        drawn.append(shown)
    return drawn


def _coloured(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the colour of its operation as `role`; rare operations share one."""
    return table.assign(role=[_colour(str(name)) for name in table["operation"]])


def _colour(operation: str) -> str:
    return operation if operation in OWN_COLOURS else "discard"


def _keys(table: pd.DataFrame) -> list[Key]:
    found = sorted(set(table["operation"]))
    return [Key(_colour(name), fmt.verb_plural(name)) for name in found]


def _throughput(evidence: Evidence, name: str) -> Chart:
    table = evidence.table
    length_ns = float(table["window_length_ns"].max())
    summed = _coloured(table).groupby(["role", "window_ns"], as_index=False, sort=True)
    curves = summed[["bytes_per_second"]].sum()
    every = every_window(curves, length_ns, values=["bytes_per_second"], missing=0)
    busiest = largest(every.groupby("window_ns", as_index=False).sum(), "bytes_per_second")
    return chart(
        partial(charts.bytes_over_time, column="bytes_per_second", y_title="Bytes a second"),
        evidence.showing(every),
        title="Throughput over time",
        sentences=[
            f"At most {fmt.data(busiest['bytes_per_second'])}/s, in the"
            f" {fmt.duration(length_ns)} from {fmt.duration(busiest['window_ns'])}."
        ],
        legend=_keys(table),
        name=f"replay-{fmt.anchor(name)}-throughput-over-time",
    )


def _service(evidence: Evidence, name: str) -> Chart:
    table = evidence.table
    length_ns = float(table["window_length_ns"].max())
    values = ["service_p50_ns", "service_p99_ns"]
    largest_of = _coloured(table).groupby(["role", "window_ns"], as_index=False, sort=True)
    curves = every_window(largest_of[values].max(), length_ns, values=values, missing=math.nan)
    slowest = largest(table, "service_p99_ns")
    return chart(
        draw_service,
        evidence.showing(curves),
        title="Service times over time: half and 99 % of the requests within",
        sentences=[
            f"The slowest are the {fmt.verb_plural(str(slowest['operation']))} from"
            f" {fmt.duration(float(slowest['window_ns']))}: 99\N{NO-BREAK SPACE}% within"
            f" {fmt.duration(float(slowest['service_p99_ns']))}."
        ],
        legend=[*_keys(table), Key("slate", "half within", "dashed")],
        name=f"replay-{fmt.anchor(name)}-service-over-time",
    )


REPLAY_TITLE = "Replay"
REPLAY_MEASURES = (
    ("late", "How late requests were submitted", "time after the intended one"),
    ("response", "Response time, from the intended time", "intended to completed"),
    ("service", "Service time, from the submission", "submitted to completed"),
)
PACE = {
    "trace": "each at its time",
    "closed": "each as long after a completion as in the trace",
    "fast": "as fast as possible",
}
FACT_KINDS = {
    "made file": "a file made for the run",
    "file": "a file",
    "block device": "a block device",
    "dax device": "persistent memory that is mapped",
}


def replay(inputs: Inputs) -> Section | Missing:
    """Build the section, or say that `replay` has not run."""
    if not inputs.replays:
        return Missing(REPLAY_TITLE, "replay")
    outcomes = inputs.computed("replay/outcomes")
    times = inputs.computed("replay/replayed")
    curves = inputs.computed("replay/replayed_distribution")
    over_time = inputs.computed("replay/replayed_over_time")
    total = inputs.info.get("counts", {}).get("requests")
    parts = []
    for run in inputs.replays:
        mine = outcomes.table[outcomes.table["replay"] == run.name]
        parts.append(
            {
                "name": run.name,
                "sentences": [
                    *extent(mine, total),
                    how(run.summary),
                    *describe_replay(of_run(times, run.name).table),
                ],
                "figures": _figures(of_run(curves, run.name), run.name),
                "course": course(
                    of_run(over_time, run.name), of_run(curves, run.name), name=run.name
                ),
                "times": of_run(times, run.name),
                "outcomes": of_run(outcomes, run.name),
                "facts": flat(run.summary),
            }
        )
    return Section("replay", REPLAY_TITLE, {"runs": parts})


def of_run(evidence: Evidence, name: str) -> Evidence:
    """Return the rows of one replay."""
    table = evidence.table
    return replace(evidence, table=table[table["replay"] == name].drop(columns="replay"))


def extent(outcomes: pd.DataFrame, total: int | None) -> list[str]:
    """Describe how much of the trace was replayed and what became of it."""
    counts = outcomes.groupby("status")["request_count"].sum()
    done = int(counts.get("done", 0))
    part = f" of the trace's {fmt.count(total)}" if total else ""
    length_ns = outcomes["last_ns"].max()
    sentences = [
        f"{fmt.plural(done, 'request')}{part} were replayed, "
        f"{fmt.duration(length_ns)} of its time line."
    ]
    others = [
        f"{fmt.count(count)} {status}"
        for status, count in sorted(counts.items())
        if status != "done"
    ]
    errors = int(outcomes["error_count"].sum())
    if others or errors:
        ended = [*others, f"{fmt.count(errors)} ended with an error"] if errors else others
        sentences.append(f"Of the others: {fmt.listing(ended)}." if others else f"{ended[0]}.")
    return sentences


def how(summary: Mapping[str, Any]) -> str:
    """Describe with which engine the requests were run, on what, and at which pace."""
    engine = summary["engine"]["used"]
    pace = PACE.get(summary["pace"], summary["pace"])
    places = [
        f"{fmt.role_title(target['label']) if target['label'] != 'default' else 'requests'} on "
        f"{FACT_KINDS.get(target['kind'], target['kind'])}"
        f"{'' if target['is_direct'] else ' through the page cache'}"
        for target in summary["targets"]
    ]
    where = f" {fmt.listing(places)}," if places and engine != "null" else ""
    ways = "".join(f", {way}" for way in describe_submission(summary["engine"]))
    return f"By the engine {engine}{ways},{where} {pace}."


def describe_replay(times: pd.DataFrame) -> list[str]:
    """Describe how punctual the replay was and how long each role's requests took."""
    sentences = []
    late = times[times["measure"] == "late"]
    if not late.empty:
        count = late["request_count"].sum()
        mean_ns = (late["time_avg_ns"] * late["request_count"]).sum() / count
        sentences.append(
            f"Requests were submitted {fmt.duration(mean_ns)} after their time on average, "
            f"at most {fmt.duration(late['time_max_ns'].max())}."
        )
    for row in rows(times[times["measure"] == "response"]):
        half, most = fmt.duration(row.time_p50_ns), fmt.duration(row.time_p99_ns)
        sentences.append(
            f"{fmt.role_title(row.role).capitalize()} {fmt.verb_plural(row.operation)}: half"
            f" within {half}, 99\N{NO-BREAK SPACE}% within {most} of the intended time."
        )
    return sentences


def _figures(curves: Evidence, name: str) -> list[Chart]:
    drawn = []
    for measure, title, x_title in REPLAY_MEASURES:
        mine = curves.table[curves.table["measure"] == measure]
        if not mine.empty:
            shown = chart(
                partial(draw_distribution, x_title=x_title),
                curves.showing(mine),
                title=title,
                sentences=[],
                legend=role_keys(mine),
                name=f"replay-{fmt.anchor(name)}-{measure}",
            )
            drawn.append(shown)
    return drawn


def flat(content: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Flatten a summary to lines of name and value; long lists are only counted."""
    lines: list[tuple[str, str]] = []
    for key, value in content.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            lines += flat(value, f"{name}.")
        elif isinstance(value, list) and all(isinstance(part, Mapping) for part in value):
            for number, part in enumerate(value[:8]):
                lines += flat(part, f"{name}[{number}].")
        elif isinstance(value, list) and len(value) > 8:
            lines.append((name, fmt.plural(len(value), "value")))
        elif isinstance(value, bool) or not isinstance(value, int):
            lines.append((name, str(value)))
        else:
            lines.append((name, fmt.duration(value) if key.endswith("_ns") else f"{value:,}"))
    return lines


def draw_ratios(table: pd.DataFrame, size: Size, *, x_title: str) -> Figure:
    """Draw `ratio` of each `kind` as a point in the colour of its `role`, and its interval.

    The axis is logarithmic, so that twice and half are as far from 1.
    """
    height_px = 70 + 26 * len(table)
    figure, axes = charts.canvas(size, x_title=x_title, y_title="", height_px=height_px)
    axes.axvline(1, color=charts.light("quiet"), linewidth=1)
    for place, row in enumerate(table.to_dict("records")):
        colour = charts.light(str(row["colour" if "colour" in row else "role"]))
        if row["ratio_low"] == row["ratio_low"] and row["ratio_low"] is not None:
            axes.plot([row["ratio_low"], row["ratio_high"]], [place, place], color=colour, lw=2)
        axes.plot([row["ratio"]], [place], color=colour, marker="o", markersize=7)
    axes.set_yticks(range(len(table)), list(table["kind"]))
    axes.set_ylim(len(table) - 0.5, -0.5)
    low, high = table["ratio"].min(), table["ratio"].max()
    axes.set_xlim(min(low, 1) / 1.3, max(high, 1) * 1.3)
    charts.log_axis(axes.xaxis, lambda ratio: f"{ratio:g}x", size=size)
    axes.yaxis.grid(visible=False)
    charts.finish(axes)
    return figure


COMPARISON_TITLE = "Replays compared"


def comparison(inputs: Inputs) -> Section | None:
    """Build the section; None when nobody has compared replays."""
    found = inputs.result("comparison", command="compare")
    if found is None:
        return None
    result, evidence = found
    shown = chart(
        partial(draw_ratios, x_title="times the first"),
        evidence.showing(points(evidence.table, result["names"])),
        title=f"Time against {fmt.printable(result['names'][0])}",
        sentences=[],
    )
    parts = {
        "headline": result["headline"],
        "first": result["names"][0],
        "figure": shown,
    }
    return Section("comparison", COMPARISON_TITLE, parts)


def points(table: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return a point for the elapsed time and each mean service time of all but the first."""
    is_shown = table["measure"].isin(("elapsed", "service_avg")) & table["ratio"].notna()
    chosen = table[is_shown & table["name"].isin(names[1:])]
    kinds = [
        f"{fmt.printable(row['name'])}: elapsed"
        if row["measure"] == "elapsed"
        else f"{fmt.printable(row['name'])}: {fmt.role_title(row['role'])} {row['operation']}"
        for row in chosen.to_dict("records")
    ]
    return chosen.assign(kind=kinds, role=chosen["role"].replace({"all": "combined"}))


STREAM_STYLES = {"original": ("blue", "solid"), "synthetic": ("orange", "dashed")}


def draw_fidelity(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `miss_ratio` over `size_bytes`, from the first size above 0, one curve a `source`."""
    figure, axes = charts.canvas(size, x_title="size of an LRU cache", y_title="Misses")
    for source, (colour, line) in STREAM_STYLES.items():
        curve = table[(table["source"] == source) & (table["size_bytes"] > 0)]
        axes.plot(
            curve["size_bytes"].astype(float),
            curve["miss_ratio"],
            color=charts.light(colour),
            linestyle=line,
        )
    charts.log_data_axis(axes.xaxis, size=size)
    charts.share_axis(axes.yaxis)
    axes.set_ylim(-0.02, 1.02)
    charts.finish(axes)
    return figure


FIDELITY_TITLE = "Work profile"


def fidelity(inputs: Inputs) -> Section | None:
    """Build the section; None when no profile was made of this trace."""
    found = inputs.result("fidelity", command="fit")
    curve = inputs.table("fidelity_curve", command="fit")
    if found is None or curve is None:
        return None
    answer, evidence = found
    drawn = chart(
        draw_fidelity,
        curve,
        title="Miss ratios of both",
        sentences=[],
        legend=[
            Key(*STREAM_STYLES["original"][:1], "the trace", STREAM_STYLES["original"][1]),
            Key(*STREAM_STYLES["synthetic"][:1], "its profile", STREAM_STYLES["synthetic"][1]),
        ],
        name="fidelity-curve",
    )
    return Section(
        "fidelity",
        FIDELITY_TITLE,
        {
            "sentences": describe_fidelity(answer),
            "figure": drawn,
            "evidence": evidence,
            "streams": streams(answer.get("streams", [])),
        },
    )


def describe_fidelity(answer: Mapping[str, Any]) -> list[str]:
    """Describe what was compared, how far apart it is, and what was left out."""
    count, left_out = answer.get("requests", 0), answer.get("left_out", {})
    sentences = [
        f"{fmt.plural(count, 'request')} of the profile were compared with as many of the trace.",
        *map(str, answer["headline"]),
    ]
    if left_out:
        parts = [f"{fmt.count(number)} ({why})" for why, number in left_out.items()]
        sentences.append(f"Requests that the profile leaves out: {fmt.listing(parts)}.")
    return sentences


def streams(found: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return a row a stream: whose, how many requests, and which gaps were the likeliest."""
    rows = []
    for stream in found:
        tried = stream.get("tried", [])
        best = min(tried, key=lambda one: one["aic"], default=None)
        likeliest = "-" if best is None else best["process"]
        distance = "-" if best is None else fmt.share(best["ks_ratio"])
        rows.append(
            {
                "role": str(stream["role"]),
                "process": str(stream["process"] or "-"),
                "requests": fmt.count(stream["requests"]),
                "gaps": likeliest,
                "distance": distance,
                "dispersion": fmt.number(stream["dispersion"]),
                "correlation": f"{stream['correlation']:.2f}",
                "phases": fmt.count(stream["phases"]),
            }
        )
    return rows
