"""Replays: lateness and response times, their course, comparisons, how well a profile fits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pandas as pd
from matplotlib.figure import Figure

from tracekit.compare import name_of
from tracekit.replay.player import describe_submission
from tracekit.replay.summary import Emulation, Verdict, lateness_of
from tracekit.replay.words import describe_verdict
from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Key, Size, Variable
from tracekit.report.formatting import every_window, largest, sentence, sentences, too_few
from tracekit.report.heat_map import cells_of_times, describe_cells, requests_by_time
from tracekit.report.inputs import Evidence, Inputs, Replay
from tracekit.report.overlay import distribution, gathered, overlays, parts_of, rates
from tracekit.report.section import Chart, Parts, chart, charts_by_device, made_by, section


def draw_service(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `service_p50_ns` (dashed) and `service_p99_ns` over `window_ns`, by `role`."""
    figure, axes = charts.canvas(size, x_title="time since the start", y_title="Service time")
    for role, curve in table.groupby("role", sort=True):
        for value, line in (("service_p50_ns", "dashed"), ("service_p99_ns", "solid")):
            ys = curve[value].astype(float).clip(lower=1)
            key = Key(str(role), "", line)
            alone = ys.notna() & ys.shift().isna() & ys.shift(-1).isna()
            look = {"marker": ".", "ms": 4, "markevery": alone.to_numpy().nonzero()[0].tolist()}
            charts.draw_curve(axes, key, x=curve["window_ns"].astype(float), y=ys, **look)
    charts.time_axis(axes.xaxis, highest=table["window_ns"].max())
    charts.log_axis(axes.yaxis, fmt.duration, size=size)
    charts.finish(axes)
    return figure


def draw_histogram(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `request_count` of each bucket from `low_ns` to `high_ns`, by `role`."""
    figure, axes = charts.canvas(size, x_title="submitted to completed", y_title="Requests")
    for role, buckets in table.sort_values("role", kind="stable").groupby("role", sort=False):
        lows, highs = buckets["low_ns"].clip(lower=1), buckets["high_ns"].clip(lower=2)
        ends = [float(end) for pair in zip(lows, highs, strict=True) for end in pair for _ in "ab"]
        counts = buckets["request_count"].astype(float)
        heights = [height for count in counts for height in (0.0, count, count, 0.0)]
        axes.fill_between(ends, heights, color=charts.light(str(role)), alpha=0.6, linewidth=0.5)
    charts.log_axis(axes.xaxis, fmt.duration, size=size)
    charts.write_ticks(axes.yaxis, fmt.count)
    axes.set_ylim(bottom=0)
    charts.finish(axes)
    return figure


OWN_COLOURS = ("read", "write", "flush")
BARE_WINDOWS = 3  # fewer windows are no course


def course(over_time: Evidence, distribution: Evidence, *, name: str) -> list[Chart]:
    """Return the figures of one replay; none of a run that had no request done."""
    drawn = []
    if over_time.table["window_number"].nunique() >= BARE_WINDOWS:
        drawn = [_throughput(over_time, name), _service(over_time, name)]
    service = distribution.table[distribution.table["measure"] == "service"]
    if not service.empty:
        shown = chart(
            draw_histogram,
            distribution.showing(service),
            title="Histogram of service times",
            name=f"replay-{fmt.anchor(name)}-histogram",
        )
        drawn.append(shown)
    return drawn


def _colour(operation: str) -> str:
    """Return the colour of an operation; rare operations share one."""
    return operation if operation in OWN_COLOURS else "discard"


def _keys(table: pd.DataFrame) -> list[Key]:
    return [Key(_colour(name), fmt.verb_plural(name)) for name in sorted(set(table["operation"]))]


def _by_colour(table: pd.DataFrame, values: list[str], how: str, *, missing: float) -> pd.DataFrame:
    """Return a row a window and colour of operations, which stands as `role`."""
    coloured = table.assign(role=[_colour(str(name)) for name in table["operation"]])
    found = coloured.groupby(["role", "window_ns"], as_index=False, sort=True)[values].agg(how)
    length_ns = float(table["window_length_ns"].max())
    return every_window(found, length_ns, values=values, missing=missing)


def _throughput(evidence: Evidence, name: str) -> Chart:
    table = evidence.table
    every = _by_colour(table, ["bytes_per_second"], "sum", missing=0)
    busiest = largest(every.groupby("window_ns", as_index=False).sum(), "bytes_per_second")
    text = (
        "At most {bytes_per_second:data}/s, in the {length_ns:duration} from {window_ns:duration}."
    )
    return chart(
        charts.over_time("bytes_per_second", "Bytes a second", scale=charts.data_axis),
        evidence.showing(every),
        title="Throughput over time",
        sentences=[sentence(text, busiest, length_ns=float(table["window_length_ns"].max()))],
        legend=_keys(table),
        name=f"replay-{fmt.anchor(name)}-throughput-over-time",
    )


def _rates(rows: pd.DataFrame) -> pd.DataFrame:
    every = _by_colour(rows, ["bytes_per_second"], "sum", missing=0)
    return every.groupby("window_ns")[["bytes_per_second"]].sum().reset_index()


def _service(evidence: Evidence, name: str) -> Chart:
    table = evidence.table
    values = ["service_p50_ns", "service_p99_ns"]
    text = (
        "The slowest are the {operation:verbs} from {window_ns:duration}: 99%"
        " within {service_p99_ns:duration}."
    )
    return chart(
        draw_service,
        evidence.showing(_by_colour(table, values, "max", missing=math.nan)),
        title="Service times over time: half and 99% of the requests within",
        sentences=[sentence(text, largest(table, "service_p99_ns")), *too_few(table)],
        legend=[*_keys(table), Key("slate", "half within", "dashed")],
        name=f"replay-{fmt.anchor(name)}-service-over-time",
    )


REPLAY_MEASURES = (
    ("late", "How late requests were submitted", "time after the intended one"),
    ("response", "Response time, from the intended time", "intended to completed"),
    ("service", "Service time, from the submission", "submitted to completed"),
)
REPLAY_FIGURES = (
    rates(
        "replay/replayed_over_time",
        "replays-throughput",
        title="Throughput over time",
        points=_rates,
    ),
    *(
        distribution(
            "replay/replayed_distribution",
            f"replays-{measure}",
            title=title,
            x=Variable("high_ns", x_title, charts.log_time_axis),
            y_title="Requests that took this long or less",
            measure=measure,
        )
        for measure, title, x_title in REPLAY_MEASURES
    ),
)
"""Of several replays, a curve each."""
PACE = {
    "trace": "each at its time",
    "closed": "each as long after a completion as in the trace",
    "fast": "as fast as possible",
}
FACT_KINDS = {
    "made file": "a temporary file",
    "file": "a file",
    "block device": "a block device",
    "dax device": "persistent memory that is mapped",
}


QUERIES = (
    "replay/outcomes",
    "replay/replayed",
    "replay/replayed_distribution",
    "replay/replayed_over_time",
)


@made_by("replay", "Replay")
def replay(inputs: Inputs) -> Parts | None:
    """Show each replay; nothing before `replay` has run."""
    if not inputs.replays:
        return None
    evidence = {name: inputs.computed(name) for name in QUERIES}
    kernel = inputs.computed("replay/kernel_times") if inputs.has_observed_replays else None
    total = inputs.info.get("counts", {}).get("requests")
    names = [run.name for run in inputs.replays]
    runs = [(name_of(name, among=names), name) for name in names]
    several = dict.fromkeys(name for name, _ in runs)
    return {
        "runs": [_run(run, [*evidence.values()], total, kernel) for run in inputs.replays],
        "overlaid": overlaid_runs(runs, evidence, names=several) if len(runs) > 1 else None,
        "heat_maps": _heat_maps(inputs.computed("replay/service_heat_map")),
    }


def _heat_maps(evidence: Evidence) -> Parts:
    return charts_by_device(
        requests_by_time("Service time"),
        evidence.showing(cells_of_times(evidence.table, evidence.parameters)),
        title="Heat map of the service times of {}",
        describe=describe_cells,
        name="replay-heat-map",
    )


def overlaid_runs(
    runs: Sequence[tuple[str, str]], evidence: Mapping[str, Evidence], *, names: Iterable[str]
) -> Parts:
    """Return the figures of replays, each with the name that its repeats share.

    A run without a name is the trace: the requests of the first other one, as they were traced.
    """
    first = next(run for _, run in runs if run)
    tables = {
        one.finding: gathered(
            [(name, run, _times(evidence[one.finding], run, first)) for name, run in runs]
        )
        for one in REPLAY_FIGURES
    }
    return parts_of(overlays(REPLAY_FIGURES, tables, names=names), names)


def _times(evidence: Evidence, run: str, first: str) -> Evidence:
    if run:
        return of_run(evidence, run)
    of_first = of_run(evidence, first)
    table = of_first.table
    if "measure" not in table:
        return replace(of_first, table=table.head(0))
    traced = table[table["measure"] == "traced"].assign(measure="service")
    return replace(of_first, table=traced)


def _run(
    run: Replay, evidence: Sequence[Evidence], total: int | None, kernel: Evidence | None
) -> Parts:
    outcomes, times, curves, over_time = (of_run(one, run.name) for one in evidence)
    return {
        "name": run.name,
        "sentences": [
            *extent(outcomes.table, total),
            how(run.summary),
            *certified(run.summary),
            *lateness(run.summary),
            *describe_replay(times.table),
        ],
        "kernel": _kernel(run, kernel),
        "figures": _figures(curves, run.name),
        "course": course(over_time, curves, name=run.name),
        "times": times,
        "outcomes": outcomes,
        "facts": flat(run.summary),
    }


def of_run(evidence: Evidence, name: str) -> Evidence:
    """Return the rows of one replay."""
    table = evidence.table
    return replace(evidence, table=table[table["replay"] == name].drop(columns="replay"))


KERNEL = {
    "queue_error": "queued, from the intended time",
    "issue_error": "issued to the driver, from the intended time",
    "handed_over": "submitted to queued",
    "in_queue": "queued to issued",
    "on_device": "issued to completed by the device",
    "reported": "from there to seen by the program",
}


def _kernel(run: Replay, evidence: Evidence | None) -> Parts | None:
    """Return what the kernel's tracer saw of a replay, None of one that was not observed."""
    seen = run.summary.get("observed")
    if evidence is None or seen is None:
        return None
    times = of_run(evidence, run.name)
    rank = {measure: number for number, measure in enumerate(KERNEL)}
    ordered = times.table.sort_values("measure", key=lambda column: column.map(rank))
    rows = ordered.assign(measure=ordered["measure"].map(KERNEL))
    followed = run.summary.get("clock", {}).get("lead_followed")
    return {
        "sentences": describe_kernel(seen, followed=followed),
        "times": replace(times, table=rows),
    }


def describe_kernel(
    seen: Mapping[str, Any], *, followed: Mapping[str, Any] | None = None
) -> list[str]:
    """Describe what the kernel's tracer saw, first what it did not."""
    lost, order = seen["lost_events"], seen["order_changes"]
    found = [f"The tracer lost {fmt.plural(lost, 'event')}: these numbers are not whole."]
    found = found if lost else []
    found.append(
        f"By {seen['source']} on {fmt.listing(seen['devices'])}: {fmt.count(seen['joined'])}"
        f" requests found, {fmt.count(seen['unmatched'])} not."
    )
    if error := seen["queue_error_ns"]:
        lead = fmt.duration(seen["lead_ns"]) if seen["lead_ns"] else ""
        if followed and followed["most_ns"]:
            lead = f"{fmt.duration(followed['least_ns'])} to {fmt.duration(followed['most_ns'])}"
        lead = f", handed over {lead} before" if lead else ""
        found.append(
            f"The kernel queued half of them within {fmt.duration(error['p50'])} of their time,"
            f" 99% within {fmt.duration(error['p99'])}{lead}."
        )
    found.append(
        f"{fmt.plural(order['queue'], 'position')} changed in the order of the queue,"
        f" {fmt.count(order['issue'])} in that of the driver; {fmt.count(seen['merged'])} merged,"
        f" {fmt.count(seen['split'])} split."
    )
    if seen["foreign"]:
        names = fmt.listing([fmt.printable(name) for name in seen["foreign_processes"]])
        found.append(f"{fmt.plural(seen['foreign'], 'request')} of others: {names}.")
    return found


def extent(outcomes: pd.DataFrame, total: int | None) -> list[str]:
    """Describe how much of the trace was replayed and what became of it."""
    counts = outcomes.groupby("status")["request_count"].sum().to_dict()
    done = int(counts.pop("done", 0))
    part = f" of the trace's {fmt.count(total)}" if total else ""
    found = [
        f"{fmt.plural(done, 'request')}{part} were replayed, "
        f"{fmt.duration(outcomes['last_ns'].max())} of its time line."
    ]
    others = [f"{fmt.count(count)} {status}" for status, count in sorted(counts.items())]
    errors = int(outcomes["error_count"].sum())
    ended = [f"{fmt.count(errors)} ended with an error"] if errors else []
    if others:
        found.append(f"Of the others: {fmt.listing([*others, *ended])}.")
    elif ended:
        found.append(f"{ended[0]}.")
    return found


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


def lateness(summary: Mapping[str, Any]) -> list[str]:
    """Describe how late the completions of emulated devices were; nothing of other replays."""
    if not summary.get("emulation"):
        return []
    beyond = " That is beyond the budget: these times are not the device's alone."
    return [
        f"Emulated {lateness_of(device)}.{'' if device.is_within_budget else beyond}"
        for device in msgspec.convert(summary["emulation"], Emulation).devices
    ]


def certified(summary: Mapping[str, Any]) -> list[str]:
    """Return the verdict of the certificate of a replay that has one, and why."""
    if not summary.get("certificate"):
        return []
    head, *lines = describe_verdict(msgspec.convert(summary["certificate"], Verdict))
    text = f"{head[:1].upper()}{head[1:]}: {'; '.join(line.strip() for line in lines)}."
    return [f"{text} The numbers are in certificate.json beside its summary."]


def describe_replay(times: pd.DataFrame) -> list[str]:
    """Describe how punctual the replay was and how long each role's requests took."""
    found = []
    late = times[times["measure"] == "late"]
    if not late.empty:
        mean_ns = (late["time_avg_ns"] * late["request_count"]).sum() / late["request_count"].sum()
        found.append(
            f"Requests were submitted {fmt.duration(mean_ns)} after their time on average, "
            f"at most {fmt.duration(late['time_max_ns'].max())}."
        )
    text = (
        "{role:Role} {operation:verbs}: half within {time_p50_ns:duration}, 99%"
        " within {time_p99_ns:duration} of the intended time."
    )
    return found + sentences(text, times[times["measure"] == "response"])


def _figures(curves: Evidence, name: str) -> list[Chart]:
    tables = {str(measure): rows for measure, rows in curves.table.groupby("measure")}
    return [
        chart(
            charts.cumulative_times(x_title, "Requests that took this long or less"),
            curves.showing(tables[measure]),
            title=title,
            name=f"replay-{fmt.anchor(name)}-{measure}",
        )
        for measure, title, x_title in REPLAY_MEASURES
        if measure in tables
    ]


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
    figure, axes = charts.rows_canvas(list(table["kind"]), size, x_title=x_title)
    axes.axvline(1, color=charts.light("quiet"), linewidth=1)
    for place, row in enumerate(table.to_dict("records")):
        colour = charts.light(str(row["colour" if "colour" in row else "role"]))
        if not fmt.is_missing(row["ratio_low"]):
            axes.plot([row["ratio_low"], row["ratio_high"]], [place, place], color=colour, lw=2)
        axes.plot([row["ratio"]], [place], color=colour, marker="o", markersize=7)
    low, high = table["ratio"].min(), table["ratio"].max()
    axes.set_xlim(min(low, 1) / 1.3, max(high, 1) * 1.3)
    charts.log_axis(axes.xaxis, lambda ratio: f"{ratio:g}x", size=size)
    charts.finish(axes)
    return figure


@section("Replays compared")
def comparison(inputs: Inputs) -> Parts | None:
    """Show replays beside the first; nothing when nobody has compared replays."""
    found = inputs.result("comparison", command="compare")
    if found is None:
        return None
    result, evidence = found
    first = result["names"][0]
    shown = chart(
        partial(draw_ratios, x_title="times the first"),
        evidence.showing(points(evidence.table, result["names"])),
        title=f"Time against {fmt.printable(first)}",
        legend=(),
    )
    warnings = [f"{one['message']}; {one['advice']}" for one in result.get("warnings", ())]
    return {
        "headline": result["headline"],
        "warnings": warnings,
        "first": first,
        "figure": shown,
    }


def points(table: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return a point for the elapsed time and each mean service time of all but the first."""
    is_shown = table["measure"].isin(("elapsed", "service_avg")) & table["ratio"].notna()
    chosen = table[is_shown & table["name"].isin(names[1:])]
    elapsed, service = "{name:text}: elapsed", "{name:text}: {role:role} {operation}"
    kinds = [
        sentence(elapsed if row["measure"] == "elapsed" else service, row)
        for row in chosen.to_dict("records")
    ]
    return chosen.assign(kind=kinds, role=chosen["role"].replace({"all": "combined"}))


STREAM_STYLES = {
    "original": Key("blue", "the trace", "solid"),
    "synthetic": Key("orange", "its profile", "dashed"),
}
draw_fidelity = partial(
    charts.curves,
    by="source",
    styles=STREAM_STYLES,
    x=Variable("size_bytes", "size of an LRU cache", charts.log_data_axis),
    y=Variable("miss_ratio", "Misses", charts.share_axis_of_points),
)


@section("Work profile")
def fidelity(inputs: Inputs) -> Parts | None:
    """Compare a profile with the trace; nothing when no profile was made of it."""
    found = inputs.result("fidelity", command="fit")
    curve = inputs.table("fidelity_curve", command="fit")
    if found is None or curve is None:
        return None
    answer, evidence = found
    drawn = chart(
        draw_fidelity,
        curve,
        title="Miss ratios of both",
        legend=tuple(STREAM_STYLES.values()),
    )
    return {
        "sentences": describe_fidelity(answer),
        "figure": drawn,
        "evidence": evidence,
        "streams": streams(answer.get("streams", [])),
    }


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
        best = min(stream.get("tried", []), key=lambda one: one["aic"], default=None)
        rows.append(
            {
                "role": str(stream["role"]),
                "process": str(stream["process"] or "-"),
                "requests": fmt.count(stream["requests"]),
                "gaps": "-" if best is None else best["process"],
                "distance": "-" if best is None else fmt.share(best["ks_ratio"]),
                "dispersion": fmt.number(stream["dispersion"]),
                "correlation": f"{stream['correlation']:.2f}",
                "phases": fmt.count(stream["phases"]),
            }
        )
    return rows
