"""Events of workloads and how they go with the throughput: study D's figure 3, and more events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from tracekit.counters import LEAST_CORRELATED
from tracekit.report import formatting as fmt
from tracekit.report.figures.counters_heat import counters_heat
from tracekit.report.inputs import Evidence, Inputs
from tracekit.report.section import Figure, Key, Section, figure

TITLE = "Hardware and software events"
COMMAND = "counters"
KEYS = (
    Key("write", "the more events, the less throughput"),
    Key("read", "the more events, the more throughput"),
)


def counters(inputs: Inputs) -> Section | None:
    """Build the section; None when nobody has counted."""
    result = inputs.answered("counters/counters.json")
    statistics = inputs.measured("counters/counter_statistics", command=COMMAND)
    if result is None or statistics is None or statistics.table.empty:
        return None
    cells = correlated(statistics.table)
    parts = {
        "result": result,
        "figure": None if cells.empty else _figure(replace(statistics, table=cells), statistics),
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


def _figure(cells: Evidence, whole: Evidence) -> Figure:
    shown = figure(
        counters_heat,
        cells,
        title="Correlation of each event with the throughput, by workload",
        says=says(cells.table),
        legend=KEYS,
        name="counters-heat",
    )
    return replace(shown, evidence=whole)


def says(cells: pd.DataFrame) -> list[str]:
    """Say what the heat map shows."""
    sure = cells[cells["is_sure"]]
    told = [
        f"{fmt.plural(len(cells), 'correlation')} of Pearson; those in brackets cannot be told from"
        f" none at 95 %. {fmt.plural(len(sure), 'interval')} without 0; about"
        f" {fmt.count(round(0.05 * len(cells)))} would be so by chance alone."
    ]
    if not sure.empty:
        far = sure.iloc[int(sure["correlation"].astype(float).abs().argmax())]
        told.append(
            f"The strongest is {fmt.printable(far['event'])} of {fmt.printable(far['workload'])}:"
            f" {float(far['correlation']):+.2f}."
        )
    return told
