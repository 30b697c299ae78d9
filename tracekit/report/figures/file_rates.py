"""Steps a second of each point of a sweep: bars, with the slowest and the fastest repeat."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report import formatting as fmt
from tracekit.report.svg import Size

BELOW = 0.42  # the bar, where the line crosses no number


def file_rates(table: pd.DataFrame, size: Size) -> Figure:
    """Draw `steps_per_second` of each `kind` in the colour of its `role`, with its range."""
    whole = table.assign(steps_per_second=table["steps_per_second"].round())
    figure = canvas.role_bars(whole, size, value="steps_per_second", x_title="steps a second")
    axes = figure.axes[0]
    for place, row in enumerate(table.to_dict("records")):
        ends = [row["low_per_second"], row["high_per_second"]]
        axes.plot(ends, [place + BELOW, place + BELOW], color=svg.light("ink"), linewidth=1.5)
    canvas.write_ticks(axes.xaxis, fmt.count)
    return figure
