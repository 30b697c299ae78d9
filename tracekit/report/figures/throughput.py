"""Traffic over time: bytes a second that each role asked for."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas
from tracekit.report.svg import Size


def throughput(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `bytes_per_second` of each role over `window_ns`."""
    figure, axes = canvas.canvas(size, x_title="time since the start", y_title="Bytes a second")
    canvas.role_curves(axes, table, x="window_ns", y="bytes_per_second")
    canvas.time_axis(axes.xaxis, table["window_ns"].max())
    canvas.data_axis(axes.yaxis, table["bytes_per_second"].max())
    axes.set_ylim(bottom=0)
    canvas.finish(axes)
    return figure
