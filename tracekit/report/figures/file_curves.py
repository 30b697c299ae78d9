"""How rate or latency of a sweep change with one parameter: a curve a personality and target."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from tracekit.report import canvas, svg
from tracekit.report import formatting as fmt
from tracekit.report.svg import Size

RATE = ("steps_per_second", "low_per_second", "high_per_second")
LATENCY = ("mean_ns", "low_ns", "high_ns")


def rate_over_size(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `steps_per_second` over `io_bytes`, both logarithmic, one curve a `kind`.

    As in the other curves a point has the spread of its repeats as a line.
    """
    figure, axes = canvas.canvas(size, x_title="bytes of a call", y_title="Steps a second")
    _curves(axes, table, x="io_bytes", y=RATE)
    canvas.log_axis(axes.yaxis, fmt.count, size=size)
    canvas.log_data_axis(axes.xaxis, size=size)
    canvas.finish(axes)
    return figure


def latency_over_threads(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `mean_ns` over `threads`, both logarithmic, one curve a `kind`."""
    figure, axes = canvas.canvas(size, x_title="threads", y_title="Mean time of a step")
    _curves(axes, table, x="threads", y=LATENCY)
    canvas.log_axis(axes.yaxis, fmt.duration, size=size)
    _whole_numbers(axes, sorted(set(table["threads"])))
    canvas.finish(axes)
    return figure


def rate_over_files(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `steps_per_second` over `files`, both logarithmic, one curve a `kind`."""
    figure, axes = canvas.canvas(size, x_title="files", y_title="Steps a second")
    _curves(axes, table, x="files", y=RATE)
    canvas.log_axis(axes.yaxis, fmt.count, size=size)
    _whole_numbers(axes, sorted(set(table["files"])))
    canvas.finish(axes)
    return figure


def _curves(axes: Axes, table: pd.DataFrame, *, x: str, y: tuple[str, str, str]) -> None:
    for _, curve in table.groupby("kind", sort=False):
        drawn = curve.sort_values(x)
        colour = svg.light(str(drawn["role"].iloc[0]))
        xs, ys, lows, highs = (drawn[name].astype(float).tolist() for name in (x, *y))
        axes.vlines(xs, lows, highs, color=colour, linewidth=1)
        style = str(drawn["line"].iloc[0])
        axes.plot(xs, ys, color=colour, linestyle=style, marker="o", markersize=5)


def _whole_numbers(axes: Axes, values: list[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator([float(value) for value in values]))
    axes.xaxis.set_minor_locator(NullLocator())
    canvas.write_ticks(axes.xaxis, fmt.count)
