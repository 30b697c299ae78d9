"""How the calls of each workload's costliest step are distributed, where operations were kept."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from matplotlib.figure import Figure as Drawing

from tracekit.report import canvas
from tracekit.report.inputs import Inputs
from tracekit.report.section import Figure, Key, figure
from tracekit.report.svg import Size

COLOURS = ("fs", "journal", "swap", "combined", "write", "discard", "flush", "heat", "read")
POINT = ["personality", "target", "settings"]


def call_times(inputs: Inputs, shown: pd.DataFrame, *, steps: pd.DataFrame) -> list[Figure]:
    """Draw the calls of the step that takes most of the time of each personality, a curve a target.

    `shown` are the points that the section shows, `steps` their steps; no figure without rows.
    """
    if not any(inputs.folder.path.glob("files/operations/*.parquet")):
        return []
    calls = inputs.computed("files/call_distribution")
    known = calls.table.merge(shown[[*POINT, "kind"]], on=POINT)
    table = costliest(known, steps)
    if table.empty:
        return []
    legend = [
        Key(str(part["role"].iloc[0]), str(kind), "solid")
        for kind, part in table.groupby("kind", sort=False)
    ]
    says = ["Calls of the step that takes most of the time of each workload, over all targets."]
    left_out = known["kind"].nunique() - table["kind"].nunique()
    if left_out:
        says.append(f"{left_out} more workloads and targets have no curve here, for lack of room.")
    drawn = figure(
        _draw,
        replace(calls, table=table),
        title="How long a call takes at the costliest step",
        says=says,
        legend=legend,
        name="file-call-times",
    )
    return [replace(drawn, evidence=calls)]


def costliest(calls: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Return the calls of each personality's costliest step, over all points; a colour a point."""
    shares = steps.groupby(["personality", "step"])["time_ratio"].sum().reset_index()
    top = shares.sort_values("time_ratio").drop_duplicates("personality", keep="last")
    chosen = calls.merge(top[["personality", "step"]], on=["personality", "step"])
    kinds = [f"{kind}: {step}" for kind, step in zip(chosen["kind"], chosen["step"], strict=True)]
    known = list(dict.fromkeys(kinds))[: len(COLOURS)]
    named = chosen.assign(kind=kinds)
    named = named[named["kind"].isin(known)]
    return named.assign(role=[COLOURS[known.index(kind)] for kind in named["kind"]])


def _draw(table: pd.DataFrame, size: Size) -> Drawing:
    return canvas.cumulative_times(
        table, size, x_title="time of a call", y_title="Calls that took this long or less"
    )
