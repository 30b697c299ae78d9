"""How often pages are written: the mean, the 99th percentile and the worst, in one figure."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report import formatting as fmt
from tracekit.report.svg import Size

MEASURES = (
    ("write_invalidation_factor", "quiet"),
    ("writes_p99", "fs"),
    ("writes_max", "combined"),
)


def endurance(table: pd.DataFrame, size: Size) -> Figure:
    """Draw the measures of each `label` on one line, on a logarithmic scale of writes a page."""
    last = len(table) - 1
    figure, axes = canvas.canvas(
        size, x_title="writes of a written page", y_title="", height_px=100 + 26 * last
    )
    for place, row in enumerate(table.to_dict("records")):
        ends = [float(row[name]) for name, _ in MEASURES]
        axes.plot([min(ends), max(ends)], [place, place], color=svg.light("quiet"))
        for (_, colour), writes in zip(MEASURES, ends, strict=True):
            axes.plot([writes], [place], color=svg.light(colour), marker="o", markersize=6)
    axes.set_yticks(range(len(table)), list(table["label"]))
    axes.set_ylim(last + 0.7, -0.7)
    top = max(float(table["writes_max"].max()), 1.0)
    axes.set_xlim(0.8, top * 1.3)
    canvas.log_axis(axes.xaxis, fmt.count, size=size)
    axes.yaxis.grid(visible=False)
    canvas.finish(axes)
    return figure
