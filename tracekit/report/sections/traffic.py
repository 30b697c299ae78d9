"""What the requests are: totals, operations, sizes, throughput, sequential runs, processes."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import pandas as pd
import seaborn as sns
from matplotlib.axis import Axis
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Size, Variable
from tracekit.report.formatting import every_window, largest, sentence, sentences
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Parts, analyzed, chart, role_keys, section

DISTINCT_ALPHA = 0.4


def draw_totals(table: pd.DataFrame, size: Size) -> Figure:
    """Draw two bars a role: every access to a sector, and each sector once."""
    present = fmt.in_order(table["role"])
    figure, axes = charts.canvas(
        size, x_title="512-byte sectors", y_title="", height_px=70 + 78 * len(present)
    )
    bars = table.melt("role", ["total_sectors", "distinct_sectors"], "kind", "sectors")
    sns.barplot(
        bars.astype({"sectors": float}),
        x="sectors",
        y="role",
        hue="kind",
        order=present,
        palette=[charts.light("other")] * 2,
        width=0.66,
        saturation=1,
        errorbar=None,
        ax=axes,
    )
    for kind, container in enumerate(cast("list[BarContainer]", axes.containers)):
        for role, bar in zip(present, container, strict=True):
            bar.set_facecolor(charts.light(role))
            bar.set_alpha(DISTINCT_ALPHA if kind == 1 else 1)
            what = f"{fmt.role_title(role)}, {'different sectors' if kind == 1 else 'sectors'}"
            bar.set_gid(f"{charts.BAR}{what}: {fmt.count(bar.get_width())}")
        axes.bar_label(container, fmt=fmt.count, padding=4, color=charts.light("quiet"))
    axes.set_yticks(range(len(present)), [fmt.role_title(role) for role in present])
    axes.margins(x=0.16 if not size.is_narrow else 0.3)
    axes.yaxis.grid(visible=False)
    charts.count_ticks(axes.xaxis, size)
    charts.finish(axes)
    return figure


@analyzed("Traffic by role", "traffic/totals")
def totals(evidence: Evidence) -> Parts:
    """Show how much each role reads and writes, and of how many different sectors."""
    table = evidence.table.assign(
        accesses_per_sector=evidence.table["total_sectors"]
        / evidence.table["distinct_sectors"].where(evidence.table["distinct_sectors"] > 0)
    )
    touched = table[table["total_sectors"] > 0]
    drawn = chart(
        draw_totals,
        evidence.showing(touched),
        title="Sectors read and written, and how many different ones",
        sentences=describe_totals(touched),
        legend=(),
    )
    return {"figure": drawn}


def describe_totals(table: pd.DataFrame) -> list[str]:
    """Describe which role has most of the traffic and which is touched again and again."""
    if table.empty:
        return ["No sector was read or written in this trace."]
    busiest = largest(table, "total_sectors")
    each = sentences("{accesses_per_sector:.2f} times in the {role:role}", table)
    found = [
        sentence(
            "Most traffic goes to the {role:role}: {ratio:share} of all sectors read and written.",
            busiest,
            ratio=busiest["total_sectors"] / table["total_sectors"].sum(),
        ),
        f"A sector is touched {fmt.listing(each)} on average.",
    ]
    if len(table) > 1:
        found.append(
            sentence(
                "The larger that number, the shorter the pale bar beside the full one and the more"
                " a small NVM can catch: here most in the {role:role}.",
                largest(table, "accesses_per_sector"),
            )
        )
    return found


SHOWN_KINDS = 12
FLAGS = {"is_preflush": "flush first", "is_fua": "FUA", "is_meta": "meta"}


@analyzed("Mix of operations", "traffic/mix")
def mix(evidence: Evidence) -> Parts:
    """Show which operations the requests ask for, with which flags."""
    bars = operation_kinds(evidence.table)
    drawn = chart(
        partial(charts.role_bars, value="request_count", x_title="requests as queued"),
        evidence.showing(bars.head(SHOWN_KINDS)),
        title="Requests by operation and flags",
        sentences=describe_mix(evidence.table),
    )
    return {"figure": drawn}


def operation_kinds(table: pd.DataFrame) -> pd.DataFrame:
    """Name each combination of operation and flags, the most frequent first."""
    names = []
    for _, row in table.iterrows():
        # An empty flush carries its preflush flag by nature.
        flags = [text for flag, text in FLAGS.items() if row[flag] and row["operation"] != "flush"]
        names.append(", ".join([str(row["operation"]), *flags]))
    named = table.assign(kind=names)[["role", "kind", "request_count"]]
    counted = named.groupby(["role", "kind"]).sum().reset_index()
    return counted.sort_values(
        ["request_count", "role", "kind"], ascending=[False, True, True], ignore_index=True
    )


def describe_mix(table: pd.DataFrame) -> list[str]:
    """Describe the share of writes, and how often the cache of the device must be flushed."""
    total = table["request_count"].sum()
    if total == 0:
        return ["The trace holds no request."]
    counts = table.groupby("operation")["request_count"].sum()
    found = [
        f"Of {fmt.plural(total, 'request')}, {fmt.share(counts.get('write', 0) / total)} are writes"
        f" and {fmt.share(counts.get('read', 0) / total)} reads."
    ]
    flushing = table[table["is_preflush"] | table["is_fua"] | (table["operation"] == "flush")]
    flushes = flushing["request_count"].sum()
    if flushes:
        owners = flushing.groupby("role")["request_count"].sum()
        each = [
            f"{fmt.count(owners[role])} {fmt.role_title(role)}"
            for role in fmt.in_order(owners.index)
        ]
        found.append(
            f"{fmt.count(flushes)} of them ({fmt.listing(each)}) wait for the medium: they flush "
            "the cache or force unit access. A device without a volatile cache serves them quickly."
        )
    return found


def _binary_sizes(axis: Axis, **_: Any) -> None:
    axis.axes.set_xscale("log", base=2)
    axis.set_minor_locator(NullLocator())
    charts.write_ticks(axis, fmt.data)


@analyzed("Request sizes", "traffic/sizes", optional=("traffic/merges",))
def sizes(evidence: Evidence, *, merges: Evidence | None) -> Parts:
    """Show how long the requests are."""
    drawn = chart(
        partial(
            charts.cumulative,
            x=Variable("length_bytes", "length of a request", _binary_sizes),
            y_title="Requests of this length or shorter",
        ),
        evidence,
        title="Cumulative share of requests by length",
        sentences=describe_sizes(evidence.table),
    )
    return {"figure": drawn, "merges": merges}


def describe_sizes(table: pd.DataFrame) -> list[str]:
    """Describe the commonest length of each role and operation."""
    found = []
    for _, group in table.groupby(["role", "operation"], sort=True):
        commonest = largest(group, "request_count")
        text = "{role:Role} {operation:verbs}: {part:share} are {length_bytes:data} long"
        if len(group) == 1:
            text = "{role:Role} {operation:verbs}: all are {length_bytes:data} long."
        else:
            text += ", the longest {longest_bytes:data}."
        part = commonest["request_count"] / group["request_count"].sum()
        longest_bytes = group["length_bytes"].max()
        found.append(sentence(text, commonest, part=part, longest_bytes=longest_bytes))
    return found or ["No request of this trace carries data."]


@analyzed("Traffic over time", "traffic/throughput")
def throughput(evidence: Evidence) -> Parts:
    """Show how much is asked for a second, by role."""
    rates = rate_by_role(evidence.table)
    drawn = chart(
        charts.over_time("bytes_per_second", "Bytes a second", scale=charts.data_axis),
        evidence.showing(rates),
        title="Bytes asked for, by role",
        sentences=describe_throughput(rates),
    )
    return {"figure": drawn}


def rate_by_role(table: pd.DataFrame) -> pd.DataFrame:
    """Add up the operations of a role that move data and turn bytes into bytes a second."""
    moving = table[table["operation"].isin(["read", "write"])]
    length_ns = float(table["window_length_ns"].max()) if len(table) else 0.0
    summed = moving.groupby(["role", "window_ns"])[["request_bytes"]].sum().reset_index()
    rates = every_window(summed, length_ns, values=["request_bytes"], missing=0.0)
    return rates.assign(bytes_per_second=rates["request_bytes"] * 1e9 / max(length_ns, 1.0))


def describe_throughput(rates: pd.DataFrame) -> list[str]:
    """Describe the peak of each role and when it was."""
    found = []
    for role in fmt.in_order(rates["role"]):
        mine = rates[rates["role"] == role]
        found.append(
            sentence(
                "{role:Role}: at most {bytes_per_second:data} a second, {window_ns:duration} after"
                " the start; {mean:data} a second on average.",
                largest(mine, "bytes_per_second"),
                mean=mine["bytes_per_second"].mean(),
            )
        )
    return found or ["The trace holds no read and no write."]


SHOWN_STREAMS = 12


@analyzed(
    "Sequentiality", "workload/sequentiality", optional=("workload/run_lengths", "workload/jumps")
)
def sequentiality(
    evidence: Evidence, *, run_lengths: Evidence | None, jumps: Evidence | None
) -> Parts:
    """Show how much of the traffic is sequential."""
    busiest = evidence.table.sort_values("request_count", ascending=False, kind="stable")
    bars = busiest.head(SHOWN_STREAMS)
    several = evidence.table["device"].nunique() > 1
    kinds = sentences("{operation} on {device:text}" if several else "{operation}", bars)
    drawn = chart(
        partial(
            charts.role_bars, value="sequential_ratio", x_title="share of requests", write=fmt.share
        ),
        evidence.showing(bars.assign(kind=kinds)),
        title="Requests that begin where the one before them ended",
        sentences=describe_sequentiality(busiest),
        legend=role_keys(bars[["role"]]),
    )
    return {"figure": drawn, "run_lengths": run_lengths, "jumps": jumps}


def describe_sequentiality(table: pd.DataFrame) -> list[str]:
    """Describe the share of each busy stream and how long its runs are."""
    text = (
        "{role:Role} {operation:verbs}: {sequential_ratio:share} sequential, in runs of"
        " {run_avg_requests:number} requests on average."
    )
    return sentences(text, table.head(4)) or ["The trace holds no read and no write."]


NAME_LIMIT = 16


def draw_processes(table: pd.DataFrame, size: Size) -> Figure:
    """Draw one stacked bar a process: a column a role, the busiest process first."""
    figure, axes = charts.canvas(
        size, x_title="requests as queued", y_title="", height_px=70 + 26 * len(table)
    )
    left = table[table.columns[0]] * 0
    for role in fmt.in_order(table.columns):
        axes.barh(range(len(table)), table[role], left=left, color=charts.light(role), height=0.66)
        left = left + table[role]
    axes.set_yticks(range(len(table)), [fmt.shortened(name, NAME_LIMIT) for name in table.index])
    axes.invert_yaxis()
    axes.yaxis.grid(visible=False)
    charts.count_ticks(axes.xaxis, size)
    charts.finish(axes)
    return figure


SHOWN_PROCESSES = 12
NOT_KNOWN = "(name not known)"


@analyzed("Processes", "traffic/processes")
def processes(evidence: Evidence) -> Parts:
    """Show which processes queued the requests."""
    bars = by_name(evidence.table, "process")
    drawn = chart(
        draw_processes,
        evidence.showing(bars.head(SHOWN_PROCESSES)),
        title="Requests of the busiest processes, by role",
        sentences=describe_processes(bars),
        legend=role_keys(evidence.table[["role"]]),
    )
    return {"figure": drawn}


def by_name(table: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return one row a process or cgroup, the busiest first, and one column of requests a role."""
    names = [NOT_KNOWN if fmt.is_missing(name) else fmt.printable(name) for name in table[kind]]
    return (
        table.assign(name=names)
        .pivot_table(
            index=[f"{kind}_rank", "name"],
            columns="role",
            values="request_count",
            aggfunc="sum",
            fill_value=0,
        )
        .sort_index()
        .droplevel(f"{kind}_rank")
    )


def describe_processes(bars: pd.DataFrame) -> list[str]:
    """Describe which process leads, and what the name of a process does and does not mean."""
    if bars.empty:
        return ["The trace holds no request."]
    totals = bars.sum(axis="columns")
    return [
        f"{totals.index[0]} queued {fmt.count(totals.iloc[0])} requests, "
        f"{fmt.share(totals.iloc[0] / totals.sum())} of those of the processes shown.",
        "Delayed writes are queued by kernel threads, so a name says who queued a request, "
        "not always who wrote the data.",
    ]


@section("Control groups")
def cgroups(inputs: Inputs) -> Parts | None:
    """Show which control groups the I/O is of; nothing unless there are two."""
    evidence = inputs.finding("traffic/cgroups")
    if evidence is None or evidence.table["cgroup"].nunique() < 2:
        return None
    bars = by_name(evidence.table, "cgroup")
    drawn = chart(
        draw_processes,
        evidence.showing(bars.head(SHOWN_PROCESSES)),
        title="Requests of the busiest control groups, by role",
        sentences=describe_cgroups(evidence.table),
        legend=role_keys(evidence.table[["role"]]),
    )
    return {"figure": drawn}


def describe_cgroups(table: pd.DataFrame) -> list[str]:
    """Describe what the busiest groups asked for, and how much of it the kernel queued for them."""
    found = []
    total = table["request_bytes"].sum()
    for name, rows in list(table.groupby("cgroup", sort=False))[:4]:
        asked, delayed = rows["request_bytes"].sum(), rows["writeback_bytes"].sum()
        text = f"{fmt.printable(name)}: {fmt.data(asked)}, {fmt.share(asked / total)} of all"
        rest = f"; {fmt.data(delayed)} of it as delayed writes" if delayed else ""
        found.append(f"{text}{rest}.")
    return [
        *found,
        "The kernel counts delayed writes for the group whose page it was: with cgroup v2 and its"
        " memory and io controllers that is who wrote the data, with v1 the root group.",
    ]
