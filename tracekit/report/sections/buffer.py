"""What row buffers of a byte-addressable memory would hit, and what that is worth.

Beside each figure stands what Liu et al. measured (figures 1 and 2 of their section III).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from tracekit.model.memory_filter import REFUSAL
from tracekit.model.what_if import AS_ASKED
from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Key, Size, Variable
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Chart, Missing, Parts, Section, chart, simulated

# One a size of a row, from the smallest: rows whose curves lie on each other show both colours.
ROW_LINES = (
    ("crimson", "solid"),
    ("slate", "dashed"),
    ("green", "solid"),
    ("orange", "dashed"),
    ("purple", "solid"),
    ("blue", "dashed"),
)
TITLE = "Row buffers of an NVRAM"
MEMORY_STYLES = {
    "dram": Key("black", "DRAM with these hits", "dotted"),
    "most": Key("blue", "NVRAM with buffers", "solid"),
    "one": Key("orange", "", "dashed"),
    "unbuffered": Key("slate", "NVRAM without buffers", "dashdot"),
}
SPEED = Variable("bytes_per_second", "Bytes a second", charts.from_zero(charts.data_axis))


def _log_numbers(axis: Axis, *, highest: float, size: Size) -> None:
    charts.log_data_axis(axis, highest=highest, size=size)
    charts.write_ticks(axis, fmt.number)


def row_styles(sizes: Iterable[int]) -> dict[int, Key]:
    """Return the style of each size of a row, at most as many as ROW_LINES."""
    return {
        row_bytes: Key(colour, f"rows of {fmt.data(row_bytes)}", line)
        for row_bytes, (colour, line) in zip(sorted(set(sizes)), ROW_LINES, strict=False)
    }


def draw_hits(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `hit_rate` over `buffers`, one curve a `row_bytes`."""
    return charts.curves(
        table,
        size,
        by="row_bytes",
        styles=row_styles(table["row_bytes"]),
        x=Variable("buffers", "buffers", _log_numbers),
        y=Variable("hit_rate", "Accesses that hit", charts.share_axis_of_points),
        markersize=5,
    )


draw_sizes, draw_rates = (
    partial(charts.curves, by="memory", styles=MEMORY_STYLES, x=x, y=SPEED, markersize=5)
    for x in (
        Variable("row_bytes", "size of a buffer", charts.log_data_axis),
        Variable("hit_rate", "accesses that hit", charts.percent_axis),
    )
)


WHAT_IF = (
    "nvram",
    "row_bytes",
    "buffers",
    "hit_rate",
    "access_avg_ns",
    "unbuffered_avg_ns",
    "dram_avg_ns",
)


@simulated(TITLE, "buffer", "buffer")
def _simulated(_inputs: Inputs, result: Mapping[str, Any], *, buffer: Evidence) -> Parts | None:
    table = buffer.table
    memories = table[(table["level"] == "memory") & (table["operation"] == "all")]
    totals = memories[memories["nvram"] == AS_ASKED]
    lru = replace(buffer, table=totals[totals["mapping"] == "lru"])
    return {
        "result": result,
        "hits": _hits(lru, totals),
        "sizes": _sizes(lru),
        "rates": _rates(buffer, result),
        "what_if": _what_if(replace(buffer, table=memories)),
    }


def buffer(inputs: Inputs) -> Section | Missing | None:
    """Show what row buffers would hit; of a block trace, as older versions took it, why not."""
    is_of_blocks = inputs.has_trace and not inputs.folder.has("memory_accesses")
    if is_of_blocks and inputs.answer("simulations/buffer.json") is not None:
        return Section("buffer", TITLE, {"refusal": REFUSAL})
    found = _simulated(inputs)
    return replace(found, name="buffer") if isinstance(found, Section) else found


def _what_if(evidence: Evidence) -> Evidence | None:
    """Return the memories with the most buffers, the used last open; None when there is but one."""
    table = evidence.table
    chosen = (table["mapping"] == "lru") & (table["buffers"] == table["buffers"].max())
    if table["nvram"].nunique() == 1:
        return None
    shown = table.loc[chosen, list(WHAT_IF)]
    return replace(evidence, table=shown.sort_values("row_bytes", ascending=False, kind="stable"))


def _hits(lru: Evidence, totals: pd.DataFrame) -> Chart:
    sizes = spread(sorted(set(lru.table["row_bytes"])), len(ROW_LINES))
    return chart(
        draw_hits,
        replace(lru, table=totals).showing(lru.table[lru.table["row_bytes"].isin(sizes)]),
        title="Hit rate by number of buffers, a curve a row size",
        sentences=describe_hits(totals),
        legend=tuple(row_styles(sizes).values()),
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
    streamed = max(1 - best["bytes"] / best["accesses"] / best["row_bytes"], 0.0)
    both = lru.merge(
        totals[totals["mapping"] == "banked"], on=["row_bytes", "buffers"], suffixes=("", "_banked")
    )
    lost = (both["hit_rate"] - both["hit_rate_banked"]).max()
    return [
        f"{fmt.plural(best['buffers'], 'buffer')} of {fmt.data(best['row_bytes'])} hit"
        f" {fmt.share(best['hit_rate'])}; lines that follow each other and never come back would"
        f" hit {fmt.share(streamed)}.",
        "Buffers that each serve every so many rows (banks), as in chips, hit at most"
        f" {lost * 100:.2g} percentage points less than these, which keep the rows used last."
        if lost > 0
        else "Buffers that each serve every so many rows (banks), as in chips, hit no less.",
        "The study takes the hit rate from page locality and finds more than 98% for zip, of all"
        " that the processor touches; caches serve most of that.",
    ]


def _sizes(lru: Evidence) -> Chart:
    table = lru.table
    fewest, most = (table[table["buffers"] == find(table["buffers"])] for find in (min, max))
    curves = {"dram": most, "most": most, "unbuffered": most}
    if fewest["buffers"].iloc[0] < most["buffers"].iloc[0]:
        curves["one"] = fewest
    texts = {
        name: f"NVRAM, {fmt.plural(curves[name]['buffers'].iloc[0], 'buffer')}"
        for name in curves
        if name in ("most", "one")
    }
    legend = [
        replace(style, text=texts.get(name, style.text))
        for name, style in MEMORY_STYLES.items()
        if name in curves
    ]
    return chart(
        draw_sizes,
        lru.showing(speeds(curves, "row_bytes")),
        title="Throughput by size of a buffer",
        sentences=describe_sizes(most),
        legend=legend,
        name="buffer-sizes",
    )


def speeds(curves: Mapping[str, pd.DataFrame], key: str) -> pd.DataFrame:
    """Return `memory`, the key and `bytes_per_second` of accesses one by one, of each curve."""
    columns = {"dram": "dram_avg_ns", "unbuffered": "unbuffered_avg_ns"}
    parts = []
    for name, curve in curves.items():
        average_ns = curve[columns.get(name, "access_avg_ns")]
        speed = curve["bytes"] / curve["accesses"] / average_ns * 1e9
        parts.append(curve[[key]].assign(memory=name, bytes_per_second=speed))
    return pd.concat(parts, ignore_index=True)


def describe_sizes(table: pd.DataFrame) -> list[str]:
    """Describe what half a buffer costs; `table` has a row a size, of one number of buffers."""
    found = [_half(table, "throughput_bytes_per_second", "of what the memory alone gives")]
    if table["program_ratio"].notna().all():
        found.append(_half(table, "program_ratio", "of the program's throughput"))
    study = "In the study the throughput of the whole system drops by 2%."
    return [*filter(None, found), study] if any(found) else [f"No size is half of another. {study}"]


def _half(table: pd.DataFrame, column: str, what: str) -> str:
    speed = dict(zip(table["row_bytes"], table[column], strict=True))
    lost = {size: 1 - speed[size // 2] / speed[size] for size in speed if size // 2 in speed}
    if not lost:
        return ""
    least, most = min(lost, key=lambda size: lost[size]), max(lost, key=lambda size: lost[size])
    return (
        f"Half the size costs between {fmt.share(lost[least])} (from {fmt.data(least)}) and"
        f" {fmt.share(lost[most])} (from {fmt.data(most)}) {what}."
    )


def _rates(evidence: Evidence, result: Mapping[str, Any]) -> Chart:
    table = pd.DataFrame(result["hit_rates"])
    memories = ("dram", "most", "unbuffered")
    found = Evidence(evidence.name, "buffer.json of tracekit simulate buffer", table)
    lines = table.assign(bytes=result["access_bytes"], accesses=1)
    return chart(
        draw_rates,
        found.showing(speeds(dict.fromkeys(memories, lines), "hit_rate")),
        title="Throughput by hit rate, if reads and writes hit alike",
        sentences=describe_rates(table),
        legend=charts.keys_of(MEMORY_STYLES, memories),
        name="buffer-rates",
    )


def describe_rates(table: pd.DataFrame) -> list[str]:
    """Describe what a better hit rate gives, and what is left to DRAM."""
    first, last = (table.iloc[at] for at in (0, -1))
    growth = (first["access_avg_ns"] / last["access_avg_ns"]) ** (1 / (len(table) - 1)) - 1
    best = fmt.per_cent(last["hit_rate"])
    found = [
        f"From {fmt.per_cent(first['hit_rate'])} to {best} each step gives the"
        f" memory alone {fmt.share(growth)} more on average; in the study a hit rate 10% higher"
        " gives the whole system 1.9% with NOVA and 1.4% with ext4 and ext4-DAX.",
        f"At {best} the NVRAM gives {fmt.share(last['dram_avg_ns'] / last['access_avg_ns'])} of"
        " DRAM's throughput; the study's systems are within 2% of each other.",
    ]
    if pd.notna(last["program_ratio"]):
        found.append(
            f"The whole program has {fmt.share(first['program_ratio'])} of its throughput with DRAM"
            f" at {fmt.per_cent(first['hit_rate'])}, {fmt.share(last['program_ratio'])} at {best},"
            f" and {fmt.share(last['unbuffered_program_ratio'])} without buffers."
        )
    return found
