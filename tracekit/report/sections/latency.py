"""How long requests take and how they arrive: latency, queue depth, arrival gaps, flushes."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Key, Size
from tracekit.report.formatting import every_window, largest, rows, sentence, sentences, too_few
from tracekit.report.heat_map import cells_of_times, describe_cells, requests_by_time
from tracekit.report.inputs import Evidence
from tracekit.report.section import Chart, Parts, analyzed, chart, charts_by_device

SERVICE = "d2c"
RESPONSE = "wait"


@analyzed(
    "Latency",
    "latency/distribution",
    "latency/latency",
    optional=("latency/btt", "latency/latency_over_time", "latency/latency_heat_map"),
)
def latency(
    evidence: Evidence,
    by_role: Evidence,
    *,
    btt: Evidence | None,
    latency_over_time: Evidence | None,
    latency_heat_map: Evidence | None,
) -> Parts:
    """Show how long the requests take."""
    response = evidence.table[evidence.table["step"] == RESPONSE]
    drawn = chart(
        charts.cumulative_times("latency", "Requests that took this long or less"),
        evidence.showing(response),
        title="Response time: from queued to completed, closing flushes included",
        sentences=describe_latency(by_role.table),
    )
    return {
        "figure": drawn,
        "rows": service_rows(by_role.table),
        "by_role": by_role,
        "btt": btt,
        "over_time": _over_time(latency_over_time),
        "heat_map": None if latency_heat_map is None else _heat_map(latency_heat_map),
    }


def _over_time(evidence: Evidence | None) -> Chart | None:
    if evidence is None or evidence.table.empty:
        return None
    curves = every_window(
        evidence.table,
        float(evidence.table["window_length_ns"].max()),
        values=["latency_p99_ns"],
        missing=math.nan,
    )
    text = (
        "The slowest window is the {role:role}'s, {window_ns:duration} after the start:"
        " 99% within {latency_p99_ns:duration}."
    )
    return chart(
        charts.over_time(
            "latency_p99_ns", "99% of the requests took at most", scale=charts.time_axis
        ),
        evidence.showing(curves),
        title="Response times over time",
        sentences=[
            sentence(text, largest(evidence.table, "latency_p99_ns")),
            *too_few(evidence.table),
        ],
    )


def _heat_map(evidence: Evidence) -> Chart:
    table = evidence.table
    return chart(
        requests_by_time("Response time"),
        evidence.showing(cells_of_times(table, evidence.parameters)),
        title="Heat map of response times",
        sentences=describe_cells(table),
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
    is_flushing = responses["is_preflush"].astype(bool) & (responses["operation"] != "flush")
    flushing = is_flushing.map({True: " that flush first", False: ""})
    text = (
        "{role:Role} {operation:verbs}{flushing}: half within {latency_p50_ns:duration},"
        " 99% within {latency_p99_ns:duration}."
    )
    return sentences(text, responses.assign(flushing=flushing)) or [
        "No request of the trace has both its queue and its completion event."
    ]


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
    edge = Key("slate", "", "solid")
    charts.draw_curve(
        axes, edge, x=times, y=table["depth_max"].astype(float), drawstyle="steps-post", lw=0.5
    )
    charts.draw_curve(axes, DEPTH_KEYS[0], x=times, y=table["depth_avg"].astype(float))
    charts.time_axis(axes.xaxis, highest=table["window_ns"].max())
    charts.write_ticks(axes.yaxis, fmt.number)
    axes.set_ylim(bottom=0)
    charts.finish(axes)
    return figure


DEPTH_KEYS = (
    Key("accent", "mean of the window", "solid"),
    Key("slate", "up to the most that a request met"),
)


@analyzed("Queue depth", "latency/depth_over_time")
def depth(evidence: Evidence) -> Parts:
    """Show how many requests are under way."""
    return charts_by_device(
        draw_depth_over_time,
        evidence,
        title="Requests under way on {}",
        describe=describe_depth,
        legend=DEPTH_KEYS,
        name="depth",
    )


def describe_depth(table: pd.DataFrame) -> list[str]:
    """Describe the mean, the peak and when the peak was."""
    found = [f"On average {fmt.number(table['depth_avg'].mean())} requests are under way."]
    if table["depth_max"].notna().any():
        found.append(
            sentence(
                "The deepest queue that a request met was {depth_max:count}, in the window"
                " {window_ns:duration} after the start.",
                largest(table, "depth_max"),
            )
        )
    return found


BURST_RATIO = 10


@analyzed("Gaps between requests", "workload/interarrival", "workload/interarrival_percentiles")
def interarrival(evidence: Evidence, percentiles: Evidence) -> Parts:
    """Show the gaps between the requests of each role."""
    drawn = chart(
        charts.cumulative_times("gap to the next request", "Gaps of this length or shorter"),
        evidence,
        title="Cumulative share of gaps by length",
        sentences=describe_interarrival(percentiles.table),
    )
    return {"figure": drawn, "percentiles": percentiles}


def describe_interarrival(table: pd.DataFrame) -> list[str]:
    """Describe the middle and the mean of each role's gaps, and whether it arrives in bursts."""
    found = []
    for row in table.to_dict("records"):
        text = (
            "{role:Role}: half of the gaps are at most {gap_p50_ns:duration}, the mean is"
            " {gap_avg_ns:duration}"
        )
        if row["gap_avg_ns"] >= BURST_RATIO * row["gap_p50_ns"]:
            text += ", {times:count} times as long: it arrives in bursts"
        times = row["gap_avg_ns"] / max(row["gap_p50_ns"], 1)
        found.append(sentence(f"{text}.", row, times=times))
    return found or ["There are fewer than two requests of any role."]


@analyzed("Cache flushes", "workload/commit_intervals", "workload/commits")
def commits(evidence: Evidence, totals: Evidence) -> Parts:
    """Show how often each role flushes the cache of its device."""
    if evidence.table.empty:
        return {"figure": None, "totals": totals}
    drawn = chart(
        charts.cumulative_times("time to the next flush", "Flushes this soon or sooner"),
        evidence,
        title="Time from one flush of a role to its next",
        sentences=describe_commits(totals.table),
    )
    return {"figure": drawn, "totals": totals}


def describe_commits(table: pd.DataFrame) -> list[str]:
    """Describe how often each role flushes and how much it writes in between."""
    return sentences(
        "{role:Role}: {flush_count:count} flushes, one every {interval_avg_ns:duration} on average,"
        " with {write_bytes_per_flush:data} written between.",
        table[table["flush_count"] > 1],
    )
