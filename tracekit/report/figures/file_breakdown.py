"""Where the time of each point of a sweep goes, by step: bars of shares, as study C's figure 3."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report.svg import Size


def file_breakdown(table: pd.DataFrame, size: Size) -> Figure:
    """Draw the `turn_ns` of each `kind` as one bar of its steps' `time_ratio`, by `role`.

    Rows come in the order of kinds; a step's bar begins where the one before it ended.
    """
    kinds = list(dict.fromkeys(table["kind"]))
    figure, axes = canvas.canvas(
        size, x_title="share of the time of all steps", y_title="", height_px=70 + 30 * len(kinds)
    )
    ends = dict.fromkeys(kinds, 0.0)
    for row in table.to_dict("records"):
        kind, width = row["kind"], float(row["time_ratio"])
        colour = svg.light(row["role"])
        axes.barh(kinds.index(kind), width, left=ends[kind], height=0.66, color=colour)
        ends[kind] += width
    axes.set_yticks(range(len(kinds)), kinds)
    axes.set_ylim(len(kinds) - 0.5, -0.5)
    axes.set_xlim(0, 1)
    canvas.few_ticks(axes.xaxis, size)
    canvas.write_ticks(axes.xaxis, lambda ratio: f"{ratio * 100:g} %")
    axes.yaxis.grid(visible=False)
    canvas.finish(axes)
    return figure
