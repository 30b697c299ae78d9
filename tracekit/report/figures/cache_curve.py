"""Miss ratio against cache size, a curve a role: what locality each has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.report import canvas, palette
from tracekit.report.svg import Size

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def cache_curve(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `miss_ratio` over `capacity_bytes` by role, all roles dotted, and the error band."""
    figure, axes = canvas.canvas(size, x_title="cache size", y_title="References that miss")
    curves = table[table["capacity_bytes"] > 0]
    for role, curve in curves.groupby("role", sort=True):
        is_all = role == "all"
        colour = palette.light("optimal" if is_all else str(role))
        sizes = curve["capacity_bytes"].astype(float)
        axes.plot(
            sizes,
            curve["miss_ratio"],
            color=colour,
            linestyle="dotted" if is_all else "solid",
            drawstyle="steps-post",
        )
        axes.fill_between(
            sizes,
            curve["miss_ratio_low"].astype(float),
            curve["miss_ratio_high"].astype(float),
            color=colour,
            alpha=0.15,
            linewidth=0,
        )
    canvas.log_data_axis(axes.xaxis, size=size)
    canvas.share_axis(axes.yaxis)
    canvas.finish(axes)
    return figure
