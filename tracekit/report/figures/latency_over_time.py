"""How the slow end of the response times changes over time."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas
from tracekit.report.svg import Size


def latency_over_time(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `latency_p99_ns` of each role over `window_ns`."""
    figure, axes = canvas.canvas(
        size, x_title="time since the start", y_title="99 % of the requests took at most"
    )
    canvas.role_curves(axes, table, x="window_ns", y="latency_p99_ns")
    canvas.time_axis(axes.xaxis, table["window_ns"].max())
    canvas.time_axis(axes.yaxis, table["latency_p99_ns"].max())
    axes.set_ylim(bottom=0)
    canvas.finish(axes)
    return figure
