"""Read latency and I/O time along lines of equal cost: how much of the money should be PCM."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report.svg import Size

# One a budget, from the smallest that is drawn.
EVEN_STYLES = (("swap", "dotted"), ("journal", "dashed"), ("fs", "solid"))


def cache_even(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `read_latency_avg_ns` over the PCM's share of the cost, a curve a budget."""
    return _lines(table, size, column="read_latency_avg_ns", title="Mean read latency")


def cache_even_time(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `io_time_ns` over the PCM's share of the cost, a curve a budget."""
    return _lines(table, size, column="io_time_ns", title="Aggregate I/O time")


def _lines(table: pd.DataFrame, size: Size, *, column: str, title: str) -> Figure:
    figure, axes = canvas.canvas(size, x_title="share of the cost that is PCM", y_title=title)
    for at, (_, line) in enumerate(table.groupby("even_flash_bytes", sort=True)):
        colour, style = EVEN_STYLES[at % len(EVEN_STYLES)]
        axes.plot(
            1 - line["flash_bytes"].astype(float) / line["even_flash_bytes"].astype(float),
            line[column].astype(float),
            color=svg.light(colour),
            linestyle=style,
            marker="o",
            markersize=3,
        )
    canvas.write_ticks(axes.xaxis, lambda ratio: f"{ratio * 100:.0f} %")
    axes.set_ylim(0, 1.05 * float(table[column].max()))
    canvas.time_axis(axes.yaxis, float(table[column].max()))
    canvas.finish(axes)
    return figure
