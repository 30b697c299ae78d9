"""The working set over time: what each window touches, or everything seen since the start."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas
from tracekit.report.svg import Size


def footprint(table: pd.DataFrame, size: Size, *, column: str) -> Figure:
    """Draw `column`, `touched_bytes` or `seen_bytes`, of each role over `window_ns`."""
    figure, axes = canvas.canvas(size, x_title="time since the start", y_title="Size of the blocks")
    canvas.role_curves(axes, table, x="window_ns", y=column)
    canvas.time_axis(axes.xaxis, table["window_ns"].max())
    canvas.data_axis(axes.yaxis, table[column].max())
    axes.set_ylim(bottom=0)
    canvas.finish(axes)
    return figure
