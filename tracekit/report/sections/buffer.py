"""What row buffers of a byte-addressable memory would hit, and what that is worth.

Beside each figure stands what Liu et al. measured (figures 1 and 2 of their section III).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tracekit.model.what_if import AS_ASKED
from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Size
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Chart, Key, Missing, Section, chart

# One a size of a row, from the smallest: rows whose curves lie on each other show both colours.
ROW_STYLES = (
    ("crimson", "solid"),
    ("slate", "dashed"),
    ("green", "solid"),
    ("orange", "dashed"),
    ("purple", "solid"),
    ("blue", "dashed"),
)
MEMORY_STYLES = {
    "dram": ("black", "dotted"),
    "most": ("blue", "solid"),
    "one": ("orange", "dashed"),
    "unbuffered": ("slate", "dashdot"),
}


def draw_hits(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `hit_rate` over `buffers`, one curve a `row_bytes`, of at most as many as ROW_STYLES."""
    figure, axes = charts.canvas(size, x_title="buffers", y_title="Accesses that hit")
    for (_, curve), (colour, line) in zip(
        table.groupby("row_bytes", sort=True), ROW_STYLES, strict=False
    ):
        axes.plot(
            curve["buffers"].astype(float),
            curve["hit_rate"],
            color=charts.light(colour),
            linestyle=line,
            marker="o",
            markersize=5,
        )
    charts.log_data_axis(axes.xaxis, size=size)
    charts.write_ticks(axes.xaxis, fmt.number)
    charts.share_axis(axes.yaxis)
    axes.set_ylim(-0.02, 1.02)
    charts.finish(axes)
    return figure


def draw_sizes(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `bytes_per_second` over `row_bytes`, one curve a `memory` of MEMORY_STYLES."""
    figure, axes = charts.canvas(size, x_title="size of a buffer", y_title="Bytes a second")
    _memories(axes, table, x="row_bytes")
    charts.log_data_axis(axes.xaxis, size=size)
    return figure


def draw_rates(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `bytes_per_second` over `hit_rate`, one curve a `memory` of MEMORY_STYLES."""
    figure, axes = charts.canvas(size, x_title="accesses that hit", y_title="Bytes a second")
    _memories(axes, table, x="hit_rate")
    charts.write_ticks(axes.xaxis, lambda ratio: f"{ratio * 100:g} %")
    return figure


def _memories(axes: Axes, table: pd.DataFrame, *, x: str) -> None:
    for memory, (colour, line) in MEMORY_STYLES.items():
        curve = table[table["memory"] == memory]
        axes.plot(
            curve[x].astype(float),
            curve["bytes_per_second"],
            color=charts.light(colour),
            linestyle=line,
            marker="o",
            markersize=5,
        )
    charts.data_axis(axes.yaxis, table["bytes_per_second"].max())
    axes.set_ylim(bottom=0)
    charts.finish(axes)


TITLE = "Row buffers of an NVRAM"
WHAT_IF = (
    "nvram",
    "row_bytes",
    "buffers",
    "hit_rate",
    "access_avg_ns",
    "unbuffered_avg_ns",
    "dram_avg_ns",
)


def buffer(inputs: Inputs) -> Section | Missing | None:
    """Build the section; None if it was not run, Missing if an older version ran it."""
    result = inputs.simulation_answer("buffer")
    if result is None:
        return None
    found = inputs.simulations("buffer", "buffer")
    if found is None or "hit_rates" not in result:
        return Missing(TITLE, "simulate buffer")
    (evidence,) = found
    table = evidence.table
    memories = table[(table["role"] == "all") & (table["operation"] == "all")]
    totals = memories[memories["nvram"] == AS_ASKED]
    lru = replace(evidence, table=totals[totals["mapping"] == "lru"])
    parts = {
        "result": result,
        "sequential_ratio": _sequential_ratio(inputs),
        "hits": _hits(lru, totals),
        "sizes": _sizes(lru),
        "rates": _rates(evidence, result["hit_rates"]),
        "what_if": _what_if(replace(evidence, table=memories)),
    }
    return Section("buffer", TITLE, parts)


def _what_if(evidence: Evidence) -> Evidence | None:
    """Return the memories with the most buffers, the used last open; None when there is but one."""
    table = evidence.table
    chosen = (table["mapping"] == "lru") & (table["buffers"] == table["buffers"].max())
    if table["nvram"].nunique() == 1:
        return None
    shown = table.loc[chosen, list(WHAT_IF)]
    return replace(evidence, table=shown.sort_values("row_bytes", ascending=False, kind="stable"))


def _sequential_ratio(inputs: Inputs) -> float | None:
    """Return the share of the reads that begin where the one before ended; None without reads."""
    found = inputs.finding("workload/sequentiality")
    if found is None:
        return None
    reads = found.table[found.table["operation"] == "read"]
    requests = int(reads["request_count"].sum())
    return int(reads["sequential_count"].sum()) / requests if requests else None


def _hits(lru: Evidence, totals: pd.DataFrame) -> Chart:
    sizes = spread(sorted(set(lru.table["row_bytes"])), len(ROW_STYLES))
    return chart(
        draw_hits,
        replace(lru, table=totals).showing(lru.table[lru.table["row_bytes"].isin(sizes)]),
        title="Hit rate by number of buffers, a curve a row size",
        sentences=describe_hits(totals),
        legend=[
            Key(colour, f"rows of {fmt.data(row_bytes)}", line)
            for row_bytes, (colour, line) in zip(sizes, ROW_STYLES, strict=False)
        ],
        name="buffer-hits",
    )


def spread(values: Sequence[int], most: int) -> list[int]:
    """Return at most so many of the values, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    return [values[round(at * (len(values) - 1) / (most - 1))] for at in range(most)]


def describe_hits(totals: pd.DataFrame) -> list[str]:
    """Describe what comes from streams alone, and what banks lose; `totals` has both mappings."""
    lru = totals[totals["mapping"] == "lru"]
    best = lru.sort_values(["row_bytes", "buffers"]).iloc[-1]
    streamed = 1 - best["access_bytes"] / best["row_bytes"]
    both = lru.merge(
        totals[totals["mapping"] == "banked"], on=["row_bytes", "buffers"], suffixes=("", "_banked")
    )
    lost = (both["hit_rate"] - both["hit_rate_banked"]).max()
    return [
        f"{fmt.plural(best['buffers'], 'buffer')} of {fmt.data(best['row_bytes'])} hit"
        f" {fmt.share(best['hit_rate'])}; requests of whole rows that never come back to one hit"
        f" {fmt.share(streamed)}.",
        "Buffers that each serve every so many rows (banks), as in chips, hit at most"
        f" {lost * 100:.2g} percentage points less than these, which keep the rows used last."
        if lost > 0
        else "Buffers that each serve every so many rows (banks), as in chips, hit no less.",
        "The study takes the hit rate from page locality and finds more than 98 % for zip, which"
        " streams.",
    ]


def _sizes(lru: Evidence) -> Chart:
    table = lru.table
    fewest, most = (table[table["buffers"] == find(table["buffers"])] for find in (min, max))
    curves = {"dram": most, "most": most, "unbuffered": most}
    if fewest["buffers"].iloc[0] < most["buffers"].iloc[0]:
        curves["one"] = fewest
    return chart(
        draw_sizes,
        lru.showing(speeds(curves, "row_bytes")),
        title="Throughput by size of a buffer",
        sentences=describe_sizes(most),
        legend=memory_keys(
            {name: curves[name]["buffers"].iloc[0] for name in curves if name in ("most", "one")}
        ),
        name="buffer-sizes",
    )


def memory_keys(buffers: Mapping[str, int]) -> list[Key]:
    """Return the legend of the memories; `buffers` has the number of those of NVRAM."""
    texts = {
        "dram": "DRAM with these hits",
        **{name: f"NVRAM, {fmt.plural(count, 'buffer')}" for name, count in buffers.items()},
        "unbuffered": "NVRAM without buffers",
    }
    return [Key(MEMORY_STYLES[name][0], texts[name], MEMORY_STYLES[name][1])
            for name in MEMORY_STYLES if name in texts]  # fmt: skip


def speeds(curves: Mapping[str, pd.DataFrame], key: str) -> pd.DataFrame:
    """Return `memory`, the key and `bytes_per_second` of accesses one by one, of each curve."""
    columns = {"dram": "dram_avg_ns", "unbuffered": "unbuffered_avg_ns"}
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "memory": name,
                    key: curve[key],
                    "bytes_per_second": curve["access_bytes"]
                    / curve[columns.get(name, "access_avg_ns")]
                    * 1e9,
                }
            )
            for name, curve in curves.items()
        ],
        ignore_index=True,
    )


def describe_sizes(table: pd.DataFrame) -> list[str]:
    """Describe what half a buffer costs; `table` has a row a size, of one number of buffers.

    Rows smaller than an access are left out: an access to them moves less.
    """
    table = table[table["access_bytes"] == table["access_bytes"].max()]
    speed = dict(zip(table["row_bytes"], table["throughput_bytes_per_second"], strict=True))
    lost = {size: 1 - speed[size // 2] / speed[size] for size in speed if size // 2 in speed}
    study = "In the study the throughput of the whole system drops by 2 %."
    if not lost:
        return [f"No size is half of another one. {study}"]
    least, most = min(lost, key=lambda size: lost[size]), max(lost, key=lambda size: lost[size])
    return [
        f"Half the size costs between {fmt.share(lost[least])} (from {fmt.data(least)}) and"
        f" {fmt.share(lost[most])} (from {fmt.data(most)}) of what the memory alone gives. {study}"
    ]


def _rates(evidence: Evidence, hit_rates: Sequence[Mapping[str, Any]]) -> Chart:
    table = pd.DataFrame(hit_rates)
    found = Evidence(evidence.name, "buffer.json of tracekit simulate buffer", table)
    return chart(
        draw_rates,
        found.showing(speeds(dict.fromkeys(("dram", "most", "unbuffered"), table), "hit_rate")),
        title="Throughput by hit rate, if reads and writes hit alike",
        sentences=describe_rates(table),
        legend=[
            replace(key, text=text)
            for key, text in zip(
                memory_keys({"most": 1}),
                ("DRAM with these hits", "NVRAM with buffers", "NVRAM without buffers"),
                strict=True,
            )
        ],
        name="buffer-rates",
    )


def describe_rates(table: pd.DataFrame) -> list[str]:
    """Describe what a better hit rate gives, and what is left to DRAM."""
    first, last = (table.iloc[at] for at in (0, -1))
    steps = len(table) - 1
    growth = (first["access_avg_ns"] / last["access_avg_ns"]) ** (1 / steps) - 1
    return [
        f"From {_percent(first['hit_rate'])} to {_percent(last['hit_rate'])} each step gives the"
        f" memory alone {fmt.share(growth)} more on average; in the study a hit rate 10 % higher"
        " gives the whole system 1.9 % with NOVA and 1.4 % with ext4 and ext4-DAX.",
        f"At {_percent(last['hit_rate'])} the NVRAM gives"
        f" {fmt.share(last['dram_avg_ns'] / last['access_avg_ns'])} of DRAM's throughput; the"
        " study's systems are within 2 % of each other.",
    ]


def _percent(ratio: float) -> str:
    return f"{ratio * 100:.0f}{fmt.SPACE}%"
