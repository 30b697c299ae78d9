"""How long the calls of each operation take, traced and replayed."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report import formatting as fmt
from tracekit.report.svg import Size

COLOURS = ("quiet", "fs", "journal", "swap", "other")


def file_operations(table: pd.DataFrame, size: Size) -> Figure:
    """Draw one line an operation: from the mean (a dot) to the 99 % (a bar), one a `place`."""
    operations = list(dict.fromkeys(table["operation"]))
    places = int(table["place"].max()) + 1
    figure, axes = canvas.canvas(
        size,
        x_title="time of a call",
        y_title="",
        height_px=90 + (14 + 8 * places) * len(operations),
    )
    step = 0.7 / places
    for row in table.to_dict("records"):
        at = operations.index(row["operation"]) + (row["place"] - (places - 1) / 2) * step
        colour = svg.light(COLOURS[int(row["place"])])
        mean_ns = max(float(row["latency_avg_ns"]), 1.0)
        most_ns = max(float(row["latency_p99_ns"]), 1.0)
        axes.plot([min(mean_ns, most_ns), max(mean_ns, most_ns)], [at, at], color=colour)
        axes.plot([mean_ns], [at], color=colour, marker="o", markersize=5)
        axes.plot([most_ns], [at], color=colour, marker="|", markersize=8)
    axes.set_yticks(range(len(operations)), operations)
    axes.set_ylim(len(operations) - 0.4, -0.6)
    canvas.log_axis(axes.xaxis, fmt.duration, size=size)
    axes.yaxis.grid(visible=False)
    canvas.finish(axes)
    return figure
