"""Request sizes: the share of requests that are this long or shorter."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from tracekit.report import canvas
from tracekit.report import formatting as fmt
from tracekit.report.svg import Size


def sizes(table: pd.DataFrame, size: Size) -> Figure:
    """Draw one step curve for each role and operation over a binary logarithmic scale."""
    figure, axes = canvas.canvas(
        size, x_title="length of a request", y_title="Requests of this length or shorter"
    )
    canvas.role_curves(axes, table, x="length_bytes", y="smaller_ratio", steps=True)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_minor_locator(NullLocator())
    canvas.write_ticks(axes.xaxis, fmt.data)
    canvas.share_axis(axes.yaxis)
    canvas.finish(axes)
    return figure
