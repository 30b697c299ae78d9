"""Events of workloads and how they go with the throughput: study D's figure 3, and more events."""

from __future__ import annotations

from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure

from tracekit.counters import LEAST_CORRELATED
from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Size
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Chart, Key, Section, chart

NAME_CHARACTERS = 12


def draw_heat(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `correlation` by `event` and `workload`; brackets where `is_sure` is false."""
    events = list(dict.fromkeys(table["event"]))
    workloads = sorted(set(table["workload"]))
    cells = table.pivot_table(index="event", columns="workload", values="correlation")
    cells = cells.reindex(index=events, columns=workloads)
    figure, axes = charts.canvas(
        size, x_title="", y_title="Pearson's r", height_px=80 + 26 * len(events)
    )
    # Transparent in the middle, so that the picture stands on a light or a dark page.
    less, more = (to_rgb(charts.light(name)) for name in ("write", "read"))
    ramp = LinearSegmentedColormap.from_list(
        "sides", [(*less, 0.75), (*less, 0.0), (*more, 0.0), (*more, 0.75)]
    )
    sns.heatmap(cells, cmap=ramp, vmin=-1, vmax=1, cbar=False, rasterized=True, ax=axes)
    for row in table.to_dict("records"):
        text = f"{row['correlation']:+.2f}".replace("-", "\N{MINUS SIGN}")
        axes.text(
            workloads.index(row["workload"]) + 0.5,
            events.index(row["event"]) + 0.5,
            text if row["is_sure"] else f"({text})",
            ha="center",
            va="center",
            color=charts.light("ink"),
            fontsize=10 if size.is_narrow else 12,
        )
    axes.grid(visible=False)
    axes.set_yticks([n + 0.5 for n in range(len(events))], events, rotation=0)
    axes.set_xticks([n + 0.5 for n in range(len(workloads))], map(_short, workloads), rotation=0)
    charts.finish(axes)
    axes.set_xlabel("")
    return figure


def _short(name: str) -> str:
    return name if len(name) <= NAME_CHARACTERS else f"{name[: NAME_CHARACTERS - 1]}…"


TITLE = "Hardware and software events"
COMMAND = "counters"
KEYS = (
    Key("write", "the more events, the less throughput"),
    Key("read", "the more events, the more throughput"),
)


def counters(inputs: Inputs) -> Section | None:
    """Build the section; None when nobody has counted."""
    result = inputs.measured_answer("counters/counters.json")
    statistics = inputs.measured("counters/counter_statistics", command=COMMAND)
    if result is None or statistics is None or statistics.table.empty:
        return None
    cells = correlated(statistics.table)
    parts = {
        "result": result,
        "figure": None if cells.empty else _figure(statistics, cells),
        "statistics": statistics,
        "not_counted": not_counted(result["workloads"]),
        "least": LEAST_CORRELATED,
    }
    return Section("counters", TITLE, parts)


def correlated(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a correlation, and whether its interval holds 0."""
    chosen = table[table["correlation"].notna()].reset_index(drop=True)
    low, high = (chosen[f"correlation_{end}"].astype(float) for end in ("low", "high"))
    return chosen.assign(is_sure=(low * high > 0).fillna(value=False))


def not_counted(workloads: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Return (workload, event, reason) of each event that could not be counted."""
    return [
        (str(one["workload"]), event, reason)
        for one in workloads
        for event, reason in one["not_counted"].items()
    ]


def _figure(statistics: Evidence, cells: pd.DataFrame) -> Chart:
    return chart(
        draw_heat,
        statistics.showing(cells),
        title="Correlation of each event with the throughput, by workload",
        sentences=describe_counters(cells),
        legend=KEYS,
        name="counters-heat",
    )


def describe_counters(cells: pd.DataFrame) -> list[str]:
    """Describe what the heat map shows."""
    sure = cells[cells["is_sure"]]
    sentences = [
        f"{fmt.plural(len(cells), 'correlation')} of Pearson; those in brackets do not differ from"
        f" none at 95 %. {fmt.plural(len(sure), 'interval')} without 0; about"
        f" {fmt.count(round(0.05 * len(cells)))} would be so by chance alone."
    ]
    if not sure.empty:
        far = sure.iloc[int(sure["correlation"].astype(float).abs().argmax())]
        sentences.append(
            f"The strongest is {fmt.printable(far['event'])} of {fmt.printable(far['workload'])}:"
            f" {float(far['correlation']):+.2f}."
        )
    return sentences
