"""Miss ratio against cache size, a curve a policy, the optimum below them all."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report.svg import Size

# Colour of the palette, line, and name in the legend.
POLICY_STYLES = {
    "lru": ("fs", "solid", "LRU"),
    "fifo": ("base", "dashed", "FIFO"),
    "clock": ("journal", "dashed", "CLOCK"),
    "s3-fifo": ("swap", "solid", "S3-FIFO"),
    "arc": ("combined", "dashdot", "ARC"),
    "optimum": ("optimal", "dotted", "Belady's optimum"),
}


def cache_policies(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `miss_ratio` over `capacity_bytes`; each point was simulated, lines lead the eye."""
    figure, axes = canvas.canvas(size, x_title="cache size", y_title="References that miss")
    for policy, (colour, line, _) in POLICY_STYLES.items():
        curve = table[(table["policy"] == policy) & (table["capacity_bytes"] > 0)]
        if not curve.empty:
            axes.plot(
                curve["capacity_bytes"].astype(float),
                curve["miss_ratio"],
                color=svg.light(colour),
                linestyle=line,
                marker="o",
                markersize=3,
            )
    canvas.log_data_axis(axes.xaxis, size=size)
    canvas.share_axis(axes.yaxis)
    canvas.finish(axes)
    return figure
