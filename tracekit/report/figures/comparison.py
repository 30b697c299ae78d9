"""Times of replays as multiples of those of the first, each with its confidence interval."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report.svg import Size


def comparison(table: pd.DataFrame, size: Size) -> Figure:
    """Draw times as multiples of those of the first replay."""
    return ratios(table, size, x_title="times the first")


def ratios(table: pd.DataFrame, size: Size, *, x_title: str) -> Figure:
    """Draw `ratio` of each `kind` as a point in the colour of its `role`, and its interval.

    The axis is logarithmic, so that twice and half are as far from 1.
    """
    height_px = 70 + 26 * len(table)
    figure, axes = canvas.canvas(size, x_title=x_title, y_title="", height_px=height_px)
    axes.axvline(1, color=svg.light("quiet"), linewidth=1)
    for place, row in enumerate(table.to_dict("records")):
        colour = svg.light(str(row["role"]))
        if row["ratio_low"] == row["ratio_low"] and row["ratio_low"] is not None:
            axes.plot([row["ratio_low"], row["ratio_high"]], [place, place], color=colour, lw=2)
        axes.plot([row["ratio"]], [place], color=colour, marker="o", markersize=7)
    axes.set_yticks(range(len(table)), list(table["kind"]))
    axes.set_ylim(len(table) - 0.5, -0.5)
    low, high = table["ratio"].min(), table["ratio"].max()
    axes.set_xlim(min(low, 1) / 1.3, max(high, 1) * 1.3)
    canvas.log_axis(axes.xaxis, lambda ratio: f"{ratio:g}x", size=size)
    axes.yaxis.grid(visible=False)
    canvas.finish(axes)
    return figure
