"""Events of workloads and how they go with the throughput: study D's figure 3, and more events."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from tracekit.counters import ALPHA, LEAST_CORRELATED
from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Key, Size
from tracekit.report.formatting import sentence
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Chart, Parts, chart, section

NAME_CHARACTERS = 12


def draw_heat(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `correlation` by `event` and `workload`; brackets where `is_sure` is false."""
    events = list(dict.fromkeys(table["event"]))
    workloads = sorted(set(table["workload"]))
    cells = table.pivot_table(index="event", columns="workload", values="correlation")
    cells = cells.reindex(index=events, columns=workloads)
    sides = (("write", 0.75), ("write", 0.0), ("read", 0.0), ("read", 0.75))
    figure, axes = charts.heat_map(
        cells,
        size,
        x_title="",
        y_title="Pearson's r",
        height_px=80 + 26 * len(events),
        colours=sides,
        vmin=-1,
        vmax=1,
    )
    axes.invert_yaxis()
    texts = []
    for row in table.to_dict("records"):
        text = f"{row['correlation']:+.2f}".replace("-", "\N{MINUS SIGN}")
        place = (workloads.index(row["workload"]), events.index(row["event"]))
        texts.append((*place, text if row["is_sure"] else f"({text})"))
    charts.write_cells(axes, texts, size=size)
    axes.set_yticks([n + 0.5 for n in range(len(events))], events)
    names = [fmt.shortened(name, NAME_CHARACTERS) for name in workloads]
    axes.set_xticks([n + 0.5 for n in range(len(workloads))], names)
    return figure


KEYS = (
    Key("write", "the more events, the less throughput"),
    Key("read", "the more events, the more throughput"),
)


@section("Hardware and software events")
def counters(inputs: Inputs) -> Parts | None:
    """Show which events go with the throughput; nothing when nobody has counted."""
    result = inputs.answer("counters/counters.json", "headline")
    statistics = inputs.table("counters/counter_statistics", command="counters")
    if result is None or statistics is None or statistics.table.empty:
        return None
    cells = correlated(statistics.table)
    return {
        "result": result,
        "figure": None if cells.empty else _figure(statistics, cells),
        "statistics": statistics,
        "not_counted": not_counted(result["workloads"]),
        "least": LEAST_CORRELATED,
    }


def correlated(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a correlation, and whether it is telling among all that were tried."""
    chosen = table[table["correlation"].notna()].reset_index(drop=True)
    return chosen.assign(is_sure=chosen["corrected_p_value"].astype(float) <= ALPHA)


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
        f"{fmt.plural(len(cells), 'correlation')} of Pearson; those in brackets are not shown to"
        f" differ from none. {fmt.plural(len(sure), 'correlation')} do; of those of a"
        " workload at most 5% are by chance on average (Benjamini-Hochberg)."
    ]
    if not sure.empty:
        far = sure.iloc[int(sure["correlation"].astype(float).abs().argmax())]
        text = "The strongest is {event:text} of {workload:text}: {correlation:+.2f}."
        sentences.append(sentence(text, far))
    return sentences
