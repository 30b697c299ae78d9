"""Where DAX pays: rates beside those of other targets, and what it saves at each step."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report.figures.comparison import ratios
from tracekit.report.svg import Size


def dax_ratios(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `ratio` of each `kind` with its interval: to the right of 1 DAX is faster."""
    return ratios(table, size, x_title="steps a second with DAX by those without")


def dax_savings(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `saved_ratio` of the steps of each `kind` as bars end to end, losses left of zero.

    Rows come in the order of kinds, their steps in that of the legend; a dot is the sum.
    """
    kinds = list(dict.fromkeys(table["kind"]))
    figure, axes = canvas.canvas(
        size,
        x_title="share of the time on the other target",
        y_title="",
        height_px=70 + 30 * len(kinds),
    )
    ends = {(kind, is_gain): 0.0 for kind in kinds for is_gain in (False, True)}
    for row in table.to_dict("records"):
        kind, width = row["kind"], float(row["saved_ratio"])
        colour = svg.light(row["role"])
        left = ends[kind, width >= 0]
        axes.barh(kinds.index(kind), width, left=left, height=0.66, color=colour)
        ends[kind, width >= 0] += width
    sums = [ends[kind, True] + ends[kind, False] for kind in kinds]
    axes.plot(sums, range(len(kinds)), "o", color=svg.light("ink"), markersize=5)
    axes.axvline(0, color=svg.light("quiet"), linewidth=1)
    axes.set_yticks(range(len(kinds)), kinds)
    axes.set_ylim(len(kinds) - 0.5, -0.5)
    canvas.few_ticks(axes.xaxis, size)
    canvas.write_ticks(axes.xaxis, lambda ratio: f"{ratio * 100:g} %")
    axes.yaxis.grid(visible=False)
    canvas.finish(axes)
    return figure
