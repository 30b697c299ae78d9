"""A replay over its time, by operation, and how often each service time was seen, by role."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report import formatting as fmt
from tracekit.report.svg import Size


def replayed_throughput(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `bytes_per_second` over `window_ns`, in the colour of each `role`."""
    figure, axes = canvas.canvas(size, x_title="time since the start", y_title="Bytes a second")
    canvas.role_curves(axes, table, x="window_ns", y="bytes_per_second")
    canvas.time_axis(axes.xaxis, table["window_ns"].max())
    canvas.data_axis(axes.yaxis, table["bytes_per_second"].max())
    axes.set_ylim(bottom=0)
    canvas.finish(axes)
    return figure


def replayed_service(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `service_p50_ns` (dashed) and `service_p99_ns` over `window_ns`, by `role`."""
    figure, axes = canvas.canvas(size, x_title="time since the start", y_title="Service time")
    for role, curve in table.groupby("role", sort=True):
        for value, line in (("service_p50_ns", "dashed"), ("service_p99_ns", "solid")):
            axes.plot(
                curve["window_ns"].astype(float),
                curve[value].astype(float).clip(lower=1),
                color=svg.light(str(role)),
                linestyle=line,
                marker=".",
                markersize=4,
            )
    canvas.time_axis(axes.xaxis, table["window_ns"].max())
    canvas.log_axis(axes.yaxis, fmt.duration, size=size)
    canvas.finish(axes)
    return figure


def replayed_histogram(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `request_count` of each bucket from `low_ns` to `high_ns`, by `role`."""
    figure, axes = canvas.canvas(size, x_title="submitted to completed", y_title="Requests")
    for role, found in table.groupby("role", sort=True):
        for low, high, count in zip(
            found["low_ns"].clip(lower=1), found["high_ns"].clip(lower=2), found["request_count"],
            strict=True,
        ):  # fmt: skip
            axes.fill_between(
                [float(low), float(high)], [float(count)] * 2, color=svg.light(str(role)),
                alpha=0.6, linewidth=0.5,
            )  # fmt: skip
    canvas.log_axis(axes.xaxis, fmt.duration, size=size)
    canvas.write_ticks(axes.yaxis, fmt.count)
    axes.set_ylim(bottom=0)
    canvas.finish(axes)
    return figure
