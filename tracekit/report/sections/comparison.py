"""Replays side by side: how much longer or shorter each took than the first."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.comparison import comparison as draw
from tracekit.report.inputs import Inputs
from tracekit.report.section import Section, figure

TITLE = "Replays compared"


def comparison(inputs: Inputs) -> Section | None:
    """Build the section; None when nobody has compared replays."""
    told = inputs.told("comparison", command="compare")
    if told is None:
        return None
    result, evidence = told
    shown = figure(
        draw,
        replace(evidence, table=points(evidence.table, result["names"])),
        title=f"Time against {fmt.printable(result['names'][0])}",
        says=[],
    )
    parts = {
        "headline": result["headline"],
        "first": result["names"][0],
        "figure": replace(shown, evidence=evidence),
    }
    return Section("comparison", TITLE, parts)


def points(table: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return a point for the elapsed time and each mean service time of all but the first."""
    is_shown = table["measure"].isin(("elapsed", "service_avg")) & table["ratio"].notna()
    chosen = table[is_shown & table["name"].isin(names[1:])]
    kinds = [
        f"{fmt.printable(row['name'])}: elapsed"
        if row["measure"] == "elapsed"
        else f"{fmt.printable(row['name'])}: {fmt.role_title(row['role'])} {row['operation']}"
        for row in chosen.to_dict("records")
    ]
    return chosen.assign(kind=kinds, role=chosen["role"].replace({"all": "combined"}))
