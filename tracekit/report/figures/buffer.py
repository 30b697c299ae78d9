"""Row buffers of an NVRAM: hits by their number, throughput by their size and by the hit rate."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report import formatting as fmt
from tracekit.report.svg import Size

# One a size of a row, from the smallest: rows whose curves lie on each other show both colours.
ROW_STYLES = (
    ("write", "solid"),
    ("base", "dashed"),
    ("swap", "solid"),
    ("journal", "dashed"),
    ("combined", "solid"),
    ("fs", "dashed"),
)
MEMORY_STYLES = {
    "dram": ("optimal", "dotted"),
    "most": ("fs", "solid"),
    "one": ("journal", "dashed"),
    "unbuffered": ("base", "dashdot"),
}


def buffer_hits(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `hit_rate` over `buffers`, one curve a `row_bytes`, of at most as many as ROW_STYLES."""
    figure, axes = canvas.canvas(size, x_title="buffers", y_title="Accesses that hit")
    for (_, curve), (colour, line) in zip(
        table.groupby("row_bytes", sort=True), ROW_STYLES, strict=False
    ):
        axes.plot(
            curve["buffers"].astype(float),
            curve["hit_rate"],
            color=svg.light(colour),
            linestyle=line,
            marker="o",
            markersize=5,
        )
    canvas.log_data_axis(axes.xaxis, size=size)
    canvas.write_ticks(axes.xaxis, fmt.number)
    canvas.share_axis(axes.yaxis)
    axes.set_ylim(-0.02, 1.02)
    canvas.finish(axes)
    return figure


def buffer_sizes(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `bytes_per_second` over `row_bytes`, one curve a `memory` of MEMORY_STYLES."""
    figure, axes = canvas.canvas(size, x_title="size of a buffer", y_title="Bytes a second")
    _memories(axes, table, x="row_bytes")
    canvas.log_data_axis(axes.xaxis, size=size)
    return figure


def buffer_rates(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `bytes_per_second` over `hit_rate`, one curve a `memory` of MEMORY_STYLES."""
    figure, axes = canvas.canvas(size, x_title="accesses that hit", y_title="Bytes a second")
    _memories(axes, table, x="hit_rate")
    canvas.write_ticks(axes.xaxis, lambda ratio: f"{ratio * 100:g} %")
    return figure


def _memories(axes: Axes, table: pd.DataFrame, *, x: str) -> None:
    for memory, (colour, line) in MEMORY_STYLES.items():
        curve = table[table["memory"] == memory]
        axes.plot(
            curve[x].astype(float),
            curve["bytes_per_second"],
            color=svg.light(colour),
            linestyle=line,
            marker="o",
            markersize=5,
        )
    canvas.data_axis(axes.yaxis, table["bytes_per_second"].max())
    axes.set_ylim(bottom=0)
    canvas.finish(axes)
