"""How long requests take and how they arrive: latency, queue depth, arrival gaps, flushes."""

from __future__ import annotations

import math
from functools import partial

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Size
from tracekit.report.formatting import every_window, largest, rows
from tracekit.report.inputs import Evidence
from tracekit.report.section import Chart, Key, Parts, analyzed, chart, role_keys


def draw_latency_over_time(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `latency_p99_ns` of each role over `window_ns`."""
    figure, axes = charts.canvas(
        size, x_title="time since the start", y_title="99 % of the requests took at most"
    )
    charts.role_curves(axes, table, x="window_ns", y="latency_p99_ns")
    charts.time_axis(axes.xaxis, table["window_ns"].max())
    charts.time_axis(axes.yaxis, table["latency_p99_ns"].max())
    axes.set_ylim(bottom=0)
    charts.finish(axes)
    return figure


SERVICE = "d2c"
RESPONSE = "wait"


@analyzed(
    "Latency",
    "latency/distribution",
    "latency/latency",
    optional=("latency/btt", "latency/latency_over_time"),
)
def latency(
    evidence: Evidence,
    by_role: Evidence,
    *,
    btt: Evidence | None,
    latency_over_time: Evidence | None,
) -> Parts:
    """Show how long the requests take."""
    response = evidence.table[evidence.table["step"] == RESPONSE]
    drawn = chart(
        partial(
            charts.cumulative_times,
            x_title="latency",
            y_title="Requests that took this long or less",
        ),
        evidence.showing(response),
        title="Response time: from queued to completed, closing flushes included",
        sentences=describe_latency(by_role.table),
        legend=role_keys(response),
    )
    return {
        "figure": drawn,
        "rows": service_rows(by_role.table),
        "by_role": by_role,
        "btt": btt,
        "over_time": _over_time(latency_over_time),
    }


def _over_time(evidence: Evidence | None) -> Chart | None:
    if evidence is None or evidence.table.empty:
        return None
    slowest = largest(evidence.table, "latency_p99_ns")
    curves = every_window(
        evidence.table,
        float(evidence.table["window_length_ns"].max()),
        values=["latency_p99_ns"],
        missing=math.nan,
    )
    return chart(
        draw_latency_over_time,
        evidence.showing(curves),
        title="Response times over time",
        sentences=[
            f"The slowest window is the {fmt.role_title(str(slowest['role']))}'s, "
            f"{fmt.duration(slowest['window_ns'])} after the start: 99\N{NO-BREAK SPACE}% within "
            f"{fmt.duration(slowest['latency_p99_ns'])}."
        ],
        legend=role_keys(evidence.table),
    )


def service_rows(table: pd.DataFrame) -> list[dict[str, str]]:
    """Return the service times (D2C) as the short table: one row a role, operation and preflush."""
    short = []
    for row in rows(table[table["step"] == SERVICE]):
        flushing = " that flushes first" if row.is_preflush and row.operation != "flush" else ""
        times = {
            key: fmt.duration(getattr(row, f"latency_{key}_ns"))
            for key in ("min", "avg", "p50", "p99", "max")
        }
        short.append(
            {
                "role": row.role,
                "name": f"{fmt.role_title(row.role)} {row.operation}{flushing}",
                "count": fmt.count(row.request_count),
                **times,
            }
        )
    return short


def describe_latency(table: pd.DataFrame) -> list[str]:
    """Describe the middle and the 99th percentile of the response time, and what flushing costs."""
    responses = table[table["step"] == RESPONSE]
    if responses.empty:
        return ["No request of the trace has both its queue and its completion event."]
    sentences = []
    for row in rows(responses):
        flushing = " that flush first" if row.is_preflush and row.operation != "flush" else ""
        subject = f"{fmt.role_title(row.role).capitalize()} {fmt.verb_plural(row.operation)}"
        half, most = (fmt.duration(value) for value in (row.latency_p50_ns, row.latency_p99_ns))
        sentences.append(
            f"{subject}{flushing}: half within {half}, 99\N{NO-BREAK SPACE}% within {most}."
        )
    return sentences


def draw_depth_over_time(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `depth_avg` as a line over the band up to `depth_max`, for one device."""
    figure, axes = charts.canvas(size, x_title="time since the start", y_title="Requests under way")
    times = table["window_ns"].astype(float)
    axes.fill_between(
        times,
        table["depth_max"].astype(float).fillna(0),
        color=charts.light("slate"),
        alpha=0.3,
        linewidth=0,
        step="post",
    )
    sns.lineplot(
        x=times,
        y=table["depth_avg"].astype(float),
        color=charts.light("accent"),
        estimator=None,
        ax=axes,
    )
    axes.set_xlabel("time since the start")
    charts.time_axis(axes.xaxis, table["window_ns"].max())
    charts.write_ticks(axes.yaxis, fmt.number)
    axes.set_ylim(bottom=0)
    charts.finish(axes)
    return figure


DEPTH_KEYS = (
    Key("accent", "mean of the window", "solid"),
    Key("slate", "up to the most that a request met"),
)
SHOWN_DEVICES = 4


@analyzed("Queue depth", "latency/depth_over_time")
def depth(evidence: Evidence) -> Parts:
    """Show how many requests are under way."""
    devices = list(dict.fromkeys(evidence.table["device"]))
    figures = []
    for number, device in enumerate(devices[:SHOWN_DEVICES]):
        mine = evidence.table[evidence.table["device"] == device]
        drawn = chart(
            draw_depth_over_time,
            evidence.showing(mine),
            title=f"Requests under way on {fmt.printable(device)}",
            sentences=describe_depth(mine),
            legend=DEPTH_KEYS,
            name=f"depth-{number}",
        )
        figures.append(drawn)
    return {"figures": figures, "hidden_count": max(0, len(devices) - SHOWN_DEVICES)}


def describe_depth(table: pd.DataFrame) -> list[str]:
    """Describe the mean, the peak and when the peak was."""
    mean = table["depth_avg"].mean()
    sentences = [f"On average {fmt.number(mean)} requests are under way."]
    if table["depth_max"].notna().any():
        peak = largest(table, "depth_max")
        sentences.append(
            f"The deepest queue that a request met was {fmt.count(peak['depth_max'])}, in the "
            f"window {fmt.duration(peak['window_ns'])} after the start."
        )
    return sentences


BURST_RATIO = 10


@analyzed("Gaps between requests", "workload/interarrival", "workload/interarrival_percentiles")
def interarrival(evidence: Evidence, percentiles: Evidence) -> Parts:
    """Show the gaps between the requests of each role."""
    drawn = chart(
        partial(
            charts.cumulative_times,
            x_title="gap to the next request",
            y_title="Gaps of this length or shorter",
        ),
        evidence,
        title="Cumulative share of gaps by length",
        sentences=describe_interarrival(percentiles.table),
        legend=role_keys(evidence.table),
    )
    return {"figure": drawn, "percentiles": percentiles}


def describe_interarrival(table: pd.DataFrame) -> list[str]:
    """Describe the middle and the mean of each role's gaps, and whether it arrives in bursts."""
    sentences = []
    for row in rows(table):
        text = (
            f"{fmt.role_title(row.role).capitalize()}: half of the gaps are at most "
            f"{fmt.duration(row.gap_p50_ns)}, the mean is {fmt.duration(row.gap_avg_ns)}"
        )
        if row.gap_avg_ns >= BURST_RATIO * row.gap_p50_ns:
            times = row.gap_avg_ns / max(row.gap_p50_ns, 1)
            text += f", {fmt.count(times)} times as long: it arrives in bursts"
        sentences.append(f"{text}.")
    return sentences or ["There are fewer than two requests of any role."]


@analyzed("Cache flushes", "workload/commit_intervals", "workload/commits")
def commits(evidence: Evidence, totals: Evidence) -> Parts:
    """Show how often each role flushes the cache of its device."""
    drawn = None
    if not evidence.table.empty:
        drawn = chart(
            partial(
                charts.cumulative_times,
                x_title="time to the next flush",
                y_title="Flushes this soon or sooner",
            ),
            evidence,
            title="Time from one flush of a role to its next",
            sentences=describe_commits(totals.table),
            legend=role_keys(evidence.table),
        )
    return {"figure": drawn, "totals": totals}


def describe_commits(table: pd.DataFrame) -> list[str]:
    """Describe how often each role flushes and how much it writes in between."""
    return [
        f"{fmt.role_title(row.role).capitalize()}: {fmt.count(row.flush_count)} flushes, one "
        f"every {fmt.duration(row.interval_avg_ns)} on average, with "
        f"{fmt.data(row.write_bytes_per_flush)} written between."
        for row in rows(table)
        if row.flush_count > 1
    ]
