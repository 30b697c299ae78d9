"""IOPS over write share and requests in flight: the surface from above, its heights written in."""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report.svg import Size


def device_surface(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `usual_iops` by `write_ratio` and `depth`; the stronger the colour, the more."""
    cells = table.pivot_table(index="depth", columns="write_ratio", values="usual_iops")
    figure, axes = canvas.canvas(
        size,
        x_title="share of writes",
        y_title="Requests in flight",
        height_px=100 + 30 * len(cells.index),
    )
    # Transparent to half opaque in one hue, so that numbers can be read on it.
    hue = to_rgb(svg.light("heat"))
    ramp = LinearSegmentedColormap.from_list("heat", [(*hue, 0.04), (*hue, 0.5)])
    sns.heatmap(cells, cmap=ramp, vmin=0, cbar=False, rasterized=True, ax=axes)
    for row, depth in enumerate(cells.index):
        for column, share in enumerate(cells.columns):
            axes.text(
                column + 0.5,
                row + 0.5,
                short(float(cells.loc[depth, share])),
                ha="center",
                va="center",
                color=svg.light("ink"),
                fontsize=10 if size.is_narrow else 12,
            )
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set_xticklabels([f"{float(share) * 100:g} %" for share in cells.columns], rotation=0)
    axes.set_yticklabels([str(depth) for depth in cells.index], rotation=0)
    canvas.finish(axes)
    axes.set_xlabel("share of writes")
    return figure


def short(iops: float) -> str:
    """Write IOPS with three digits: 950, 14.9k, 1.21M."""
    for limit, unit in ((999_500, "M"), (999.5, "k")):
        if iops >= limit:
            return f"{iops / (1e6 if unit == 'M' else 1e3):.3g}{unit}"
    return f"{iops:.3g}"
