"""Which mix of storage tiers gives most for its price: section 4 of study B."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Key, Size, Variable
from tracekit.report.formatting import rows, sentence
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Chart, Parts, chart, simulated


def draw_surface(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `iops_per_price` by `first_ratio` and `second_ratio`, and mark the best."""
    first, second = (str(table[f"{which}_tier"].iloc[0]) for which in ("first", "second"))
    cells = table.pivot_table(index="second_ratio", columns="first_ratio", values="iops_per_price")
    figure, axes = charts.heat_map(
        cells, size, x_title=f"share of {first}", y_title=f"Share of {second}"
    )
    _mark_best(axes, table, cells)
    for axis, count in ((axes.xaxis, len(cells.columns)), (axes.yaxis, len(cells.index))):
        axis.set_ticks(
            [0.5 + (count - 1) * quarter / 4 for quarter in range(5)],
            [f"{quarter * 25}%" for quarter in range(5)],
        )
    return figure


def _mark_best(axes: Axes, table: pd.DataFrame, cells: pd.DataFrame) -> None:
    """Put a ring around the cell with the largest value."""
    best = table.iloc[int(table["iops_per_price"].argmax())]
    place = (
        list(cells.columns).index(best["first_ratio"]) + 0.5,
        list(cells.index).index(best["second_ratio"]) + 0.5,
    )
    axes.plot(*place, marker="o", markersize=9, fillstyle="none", color=charts.light("ink"))
    axes.annotate(
        "best",
        place,
        xytext=(10, 0),
        textcoords="offset points",
        verticalalignment="center",
        color=charts.light("ink"),
    )


def draw_key(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `iops_per_price` of each `kind` in its `unit`, in the order of the rows."""
    unit = str(table["unit"].iloc[0])
    return charts.role_bars(table, size, value="iops_per_price", x_title=unit, write=fmt.count)


SKEW_STYLES = {"read": Key("read", "reads", "dashed"), "write": Key("write", "writes", "solid")}


def draw_skew(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `traffic_ratio` over `capacity_ratio` of all roles, a curve an operation."""
    table = table[table["role"] == "all"]
    return charts.curves(
        charts.with_origins(table, "operation", capacity_ratio=0.0, traffic_ratio=0.0),
        size,
        by="operation",
        styles=SKEW_STYLES,
        x=Variable("capacity_ratio", "share of the touched extents, busiest first", _quarters),
        y=Variable("traffic_ratio", "Share of the traffic", charts.share_axis),
    )


def _quarters(axis: Axis, **_: Any) -> None:
    axis.axes.set_xlim(0, 1)
    axis.set_ticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])


METHOD_COLOURS = {"static": "slate", "dynamic": "purple"}
PARAMETERS = {
    "read_latency_us": "read latency",
    "write_latency_us": "write latency",
    "price_per_gb": "price",
    "extent_bytes": "size of an extent",
    "capacity_bytes": "capacity",
    "window_s": "window",
    "migration_mib_s": "migration bandwidth",
    "migration_cost": "cost of migration",
    "promotion_cost": "cost of promotion",
    "demotion_cost": "cost of demotion",
    "read_mib_s": "read bandwidth",
    "write_mib_s": "write bandwidth",
}


@simulated("Tiers of storage", "tiers", "tiers", "tiers_key", "tiers_skew", "tiers_sensitivity")
def tiers(
    inputs: Inputs,
    answer: Mapping[str, Any],
    *,
    tiers: Evidence,
    tiers_key: Evidence,
    tiers_skew: Evidence,
    tiers_sensitivity: Evidence,
) -> Parts:
    """Show what mixes of tiers give."""
    methods = list(answer["configurations"])
    has_surface = len(answer["tiers"]) > 2
    return {
        "answer": answer,
        "surfaces": [_surface(tiers, answer, method) for method in methods if has_surface],
        "key": _key(tiers_key, answer),
        "skew": _skew(tiers_skew),
        "sensitivity": _sensitivity(tiers_sensitivity, answer),
        "windows": inputs.simulation("tiers_windows", command="tiers --dynamic"),
    }


def _surface(evidence: Evidence, answer: Mapping[str, Any], method: str) -> Chart:
    points = surface(evidence.table, answer, method=method)
    # What is drawn, and not every column of every mix, which would be a megabyte of the page.
    return chart(
        draw_surface,
        replace(evidence, name=f"tiers_{method}", table=points),
        title=f"{price_unit(answer)} of every mix, {method}",
        sentences=describe_surface(answer, method),
        name=f"tiers-surface-{method}",
    )


def surface(table: pd.DataFrame, answer: Mapping[str, Any], *, method: str) -> pd.DataFrame:
    """Return the best IOPS for the price at each pair of shares of the two fastest tiers."""
    value = "iops_per_price" if method == "static" else "dynamic_iops_per_price"
    first, second = (str(tier["name"]) for tier in answer["tiers"][:2])
    points = table.assign(
        first_ratio=[float(shares[0]) for shares in table["share_ratio"]],
        second_ratio=[float(shares[1]) for shares in table["share_ratio"]],
        iops_per_price=table[value].astype(float),
    )
    best = points.groupby(["first_ratio", "second_ratio"])[["iops_per_price"]].max().reset_index()
    return best.assign(first_tier=first, second_tier=second)


def price_unit(answer: Mapping[str, Any]) -> str:
    """Return what IOPS are compared by: the currency of a what-if, else the relative price."""
    if answer["price_unit"] == "relative":
        return "IOPS for the price"
    currency = str(answer["price_unit"]).removesuffix(" per GB")
    return f"IOPS per {fmt.printable(currency)}/GB"


def describe_surface(answer: Mapping[str, Any], method: str) -> list[str]:
    """Describe the best mix, and what it is compared with."""
    named = answer["configurations"][method]
    first = answer["tiers"][0]["name"]
    unit = price_unit(answer)
    best = f"The stronger the colour, the more {unit}: at best {{iops_per_price:count}} with"
    without = f"Without {fmt.printable(first)} it is {{iops_per_price:count}} with {{mix:text}}."
    return [
        sentence(best + " {mix:text}.", named["best"]),
        sentence(without, named[f"best without {first}"]),
    ]


def _key(evidence: Evidence, answer: Mapping[str, Any]) -> Chart:
    has_dynamic = len(answer["configurations"]) > 1
    keys = tuple(Key(colour, method) for method, colour in METHOD_COLOURS.items())
    return chart(
        draw_key,
        evidence.showing(bars(evidence.table).assign(unit=price_unit(answer))),
        title="The configurations worth naming",
        sentences=[describe_gain(answer, method) for method in answer["configurations"]],
        legend=keys if has_dynamic else (),
    )


def bars(table: pd.DataFrame) -> pd.DataFrame:
    """Return a bar for each configuration and method, in the colour of its method."""
    return table.assign(
        kind=[fmt.printable(name) for name in table["configuration"]],
        colour=table["method"].map(METHOD_COLOURS),
    ).sort_values("configuration", kind="stable")


def describe_gain(answer: Mapping[str, Any], method: str) -> str:
    """Describe what some of the first tier gains over none of it."""
    named = answer["configurations"][method]
    first = answer["tiers"][0]["name"]
    some, none = named[f"best with {first}"], named[f"best without {first}"]
    gain_ratio = some["iops_per_price"] / none["iops_per_price"] - 1
    word = "more" if gain_ratio >= 0 else "less"
    return (
        f"{method.capitalize()}: {fmt.printable(some['mix'])} gives"
        f" {fmt.share(abs(gain_ratio))} {word} {price_unit(answer)} than the best mix without"
        f" {fmt.printable(first)}."
    )


def _skew(evidence: Evidence) -> Chart:
    return chart(
        draw_skew,
        evidence,
        title="Traffic that the busiest extents take",
        sentences=describe_skew(evidence.table),
        legend=tuple(SKEW_STYLES.values()),
    )


def describe_skew(table: pd.DataFrame) -> list[str]:
    """Describe what the busiest fifth of the extents takes."""
    text = (
        "The busiest {capacity_ratio:share} of the extents take {traffic_ratio:share} of what is"
        " {done}."
    )
    fifth = table[(table["role"] == "all") & (table["capacity_ratio"] <= 0.2 + 1e-9)]
    return [
        sentence(text, mine.iloc[-1], done=done)
        for operation, done in (("read", "read"), ("write", "written"))
        if len(mine := fifth[fifth["operation"] == operation])
    ]


def _sensitivity(evidence: Evidence, answer: Mapping[str, Any]) -> Chart:
    return chart(
        partial(charts.gain_bars, x_title="gain by the first tier"),
        evidence.showing(changes(evidence.table)),
        title="What the first tier gains when a parameter is another",
        sentences=describe_sensitivity(evidence.table, answer),
    )


def changes(table: pd.DataFrame) -> pd.DataFrame:
    """Return a bar for each change, in the colour of a gain or a loss."""
    kinds = [
        f"{_changed(row)} × {row.factor:g}"  # noqa: RUF001
        + (", dynamic" if row.method == "dynamic" else "")
        for row in rows(table)
    ]
    colours = ["loss" if gain < 0 else "gain" for gain in table["gain_ratio"]]
    return table.assign(kind=kinds, colour=colours)


def _changed(row: Any) -> str:
    parameter = PARAMETERS[row.parameter]
    return f"{fmt.printable(row.tier)} {parameter}" if isinstance(row.tier, str) else parameter


def describe_sensitivity(table: pd.DataFrame, answer: Mapping[str, Any]) -> Sequence[str]:
    """Describe how far the gain goes in both directions."""
    if table.empty:
        return ["No parameter was changed."]
    drawn = changes(table)
    low, high = (drawn.iloc[find(drawn["gain_ratio"])] for find in (np.argmin, np.argmax))
    ends = [sentence("{gain_ratio:share} ({kind})", row) for row in (low, high)]
    first = fmt.printable(answer["tiers"][0]["name"])
    return [
        f"The gain by {first} lies between {fmt.listing(ends)},"
        " static placement unless it says dynamic."
    ]
