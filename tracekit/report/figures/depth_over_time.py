"""Requests under way over time: the mean of each window, and the most that a request met."""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report import formatting as fmt
from tracekit.report.svg import Size


def depth_over_time(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `depth_avg` as a line over the band up to `depth_max`, for one device."""
    figure, axes = canvas.canvas(size, x_title="time since the start", y_title="Requests under way")
    times = table["window_ns"].astype(float)
    axes.fill_between(
        times,
        table["depth_max"].astype(float).fillna(0),
        color=svg.light("base"),
        alpha=0.3,
        linewidth=0,
        step="post",
    )
    sns.lineplot(
        x=times,
        y=table["depth_avg"].astype(float),
        color=svg.light("accent"),
        estimator=None,
        ax=axes,
    )
    axes.set_xlabel("time since the start")
    canvas.time_axis(axes.xaxis, table["window_ns"].max())
    canvas.write_ticks(axes.yaxis, fmt.number)
    axes.set_ylim(bottom=0)
    canvas.finish(axes)
    return figure
