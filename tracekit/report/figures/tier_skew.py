"""How much of the traffic the busiest extents take, reads and writes apart."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report.svg import Size


def tier_skew(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `traffic_ratio` over `capacity_ratio` of all roles, a curve an operation."""
    figure, axes = canvas.canvas(
        size, x_title="share of the touched extents, busiest first", y_title="Share of the traffic"
    )
    for operation, curve in table[table["role"] == "all"].groupby("operation", sort=True):
        axes.plot(
            [0.0, *curve["capacity_ratio"]],
            [0.0, *curve["traffic_ratio"]],
            color=svg.light(str(operation)),
            linestyle=canvas.OPERATION_LINES[str(operation)],
        )
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    canvas.share_axis(axes.yaxis)
    canvas.finish(axes)
    return figure
