"""The LRU miss ratios of a trace and of the profile that was made of it, in one figure."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report.svg import Size

STYLES = {"original": ("fs", "solid"), "synthetic": ("journal", "dashed")}


def fidelity_curve(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `miss_ratio` over `size_bytes`, from the first size above 0, one curve a `source`."""
    figure, axes = canvas.canvas(size, x_title="size of an LRU cache", y_title="Misses")
    for source, (colour, line) in STYLES.items():
        curve = table[(table["source"] == source) & (table["size_bytes"] > 0)]
        axes.plot(
            curve["size_bytes"].astype(float),
            curve["miss_ratio"],
            color=svg.light(colour),
            linestyle=line,
        )
    canvas.log_data_axis(axes.xaxis, size=size)
    canvas.share_axis(axes.yaxis)
    axes.set_ylim(-0.02, 1.02)
    canvas.finish(axes)
    return figure
