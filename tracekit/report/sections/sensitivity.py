"""Whether the recommendation holds on other devices, in each window, at other capacities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tracekit.report import formatting as fmt
from tracekit.report.figures.sensitivity import HOLDS, OTHER
from tracekit.report.figures.sensitivity import sensitivity as draw
from tracekit.report.inputs import Inputs
from tracekit.report.section import Key, Section, figure

TITLE = "Does the recommendation hold?"
MOST_ROWS = 10
DEVICES = {"base": "base", "nvm": "NVM"}
KEYS = (Key(HOLDS, "the recommended placement is best"), Key(OTHER, "another one is better"))


def sensitivity(inputs: Inputs) -> Section | None:
    """Build the section; None when nobody has asked."""
    evidence = inputs.simulation("sensitivity", command="sensitivity")
    result = inputs.simulated("sensitivity")
    if evidence is None or result is None:
        return None
    shown = figure(
        draw,
        replace(evidence, table=places(evidence.table)),
        title="The gain under each change, in each window and at each capacity",
        says=[_cut(result)],
        legend=KEYS,
    )
    parts = {"result": result, "figure": replace(shown, evidence=evidence)}
    return Section("sensitivity", TITLE, parts)


def places(table: pd.DataFrame) -> pd.DataFrame:
    """Give the rows worth drawing their line: changes of one part share one, kinds stand apart."""
    kept_gain = table["kept_gain_ratio"].astype("float64").fillna(table["gain_ratio"])
    told = table.assign(gain_ratio=kept_gain)
    told = told[(told["requests"] > 0) | (told["kind"] == "recommended")]
    parts = [told[told["kind"] == "recommended"].assign(place=-1, label="")]
    place = 0
    for kind, chosen in (
        ("parameter", lambda rows: rows),
        ("window", _ends),
        ("capacity", _spread),
    ):
        rows = chosen(told[told["kind"] == kind])
        labels = [_label(row) for row in rows.to_dict("records")]
        numbers = {label: place + n for n, label in enumerate(dict.fromkeys(labels))}
        parts.append(rows.assign(label=labels, place=[numbers[label] for label in labels]))
        place += len(numbers) + 1
    return pd.concat(parts, ignore_index=True)


def _label(row: Mapping[Any, Any]) -> str:
    if row["kind"] == "parameter":
        return f"{DEVICES[str(row['device'])]}: {str(row['parameter']).replace('_', ' ')}"
    if row["kind"] == "window":
        return _window(row)
    return f"with {fmt.data(row['capacity_bytes'])}"


def _window(row: Mapping[Any, Any]) -> str:
    if pd.isna(row["start_ns"]):
        return f"window {int(row['window'])}"
    began = "from the start" if row["window"] == 1 else f"from {fmt.duration(row['start_ns'])}"
    return f"window {int(row['window'])}, {began}"


def _cut(result: Mapping[str, Any]) -> str:
    """Say what a window is."""
    if result.get("window_requests"):
        return f"A window is {fmt.count(result['window_requests'])} requests of the trace."
    return f"A window lasts {fmt.duration(result['window_ns'])}."


def _ends(rows: pd.DataFrame) -> pd.DataFrame:
    """Return all windows, or those of the least and the largest gains of many, in order of time."""
    if len(rows) <= MOST_ROWS:
        return rows
    order = rows.sort_values("gain_ratio", kind="stable")
    return order.iloc[[*range(MOST_ROWS // 2), *range(-(MOST_ROWS // 2), 0)]].sort_index()


def _spread(rows: pd.DataFrame) -> pd.DataFrame:
    """Return some capacities of many, the smallest and the largest among them."""
    rows = rows[rows["capacity_bytes"] > 0]
    chosen = np.unique(np.rint(np.linspace(0, len(rows) - 1, min(MOST_ROWS, len(rows)))))
    return rows.iloc[chosen.astype(int)]
