"""What the recommendation gains under each change, window and capacity, in one figure."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report.svg import Size

HOLDS, OTHER = "combined", "other"


def sensitivity(table: pd.DataFrame, size: Size) -> Figure:
    """Draw the `gain_ratio` of each row at its `place`, one line a `label`.

    Rows of one place are joined; `holds` chooses the colour; the rows of the kind `recommended` are
    the line that all are compared with.
    """
    drawn = table[table["kind"] != "recommended"]
    labels = drawn.drop_duplicates("place").sort_values("place")
    last = int(labels["place"].max())
    figure, axes = canvas.canvas(
        size, x_title="time saved, of the base device's", y_title="", height_px=90 + 22 * last
    )
    gain = float(table.loc[table["kind"] == "recommended", "gain_ratio"].iloc[0])
    axes.axvline(gain, color=svg.light("quiet"), linewidth=1)
    for place in labels["place"]:
        gains = drawn.loc[drawn["place"] == place, "gain_ratio"]
        ends = [float(gains.min()), float(gains.max())]
        axes.plot(ends, [place, place], color=svg.light("quiet"), linewidth=1.5)
    for row in drawn.to_dict("records"):
        colour = svg.light(HOLDS if row["holds"] else OTHER)
        axes.plot([row["gain_ratio"]], [row["place"]], color=colour, marker="o", markersize=6)
    axes.set_yticks(list(labels["place"]), list(labels["label"]))
    axes.set_ylim(last + 0.7, -0.7)
    canvas.few_ticks(axes.xaxis, size)
    canvas.write_ticks(axes.xaxis, lambda ratio: f"{ratio * 100:g} %")
    axes.yaxis.grid(visible=False)
    canvas.finish(axes)
    return figure
