"""Elapsed time against NVM capacity, one curve a placement: Fig. 6 of the study."""

from __future__ import annotations

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from tracekit.report import canvas, svg
from tracekit.report import formatting as fmt
from tracekit.report.svg import Size

# In the order of drawing: what is compared with lies below, the optimum on top.
STYLES = {
    "base": ("base", "dashed", "base device alone"),
    "fs": ("fs", "solid", "NVM as file system"),
    "journal": ("journal", "solid", "NVM as journal"),
    "swap": ("swap", "solid", "NVM as swap"),
    "combined": ("combined", "dashdot", "NVM shared by roles"),
    "optimal": ("optimal", "dotted", "offline optimum"),
}


def capacity(
    table: pd.DataFrame, size: Size, *, answer_bytes: int, measure: str = "Elapsed time"
) -> Figure:
    """Draw the curves of one pair of devices and one coverage, and mark the answer's capacity."""
    title = measure if measure.startswith("Mean") else f"{measure} of all requests"
    figure, axes = canvas.canvas(size, x_title="NVM capacity", y_title=title)
    for placement, (colour, line, _) in STYLES.items():
        curve = table[table["placement"] == placement]
        if not curve.empty:
            sns.lineplot(
                x=curve["capacity_bytes"].astype(float),
                y=curve["elapsed_ns"].astype(float),
                color=svg.light(colour),
                linestyle=line,
                estimator=None,
                ax=axes,
            )
    axes.axvline(answer_bytes, color=svg.light("quiet"), linewidth=1, zorder=1)
    axes.annotate(
        f"the answer, {fmt.data(answer_bytes)}",
        (answer_bytes, 1),
        xycoords=("data", "axes fraction"),
        xytext=(5, -4),
        textcoords="offset points",
        verticalalignment="top",
        color=svg.light("quiet"),
    )
    axes.set_xlabel("NVM capacity")
    # Room above the base device for the mark of the answer.
    axes.set_ylim(0, 1.14 * max(float(table["elapsed_ns"].max()), 1.0))
    axes.margins(x=0.02)
    canvas.data_axis(axes.xaxis, table["capacity_bytes"].max(), steps=4 if size.is_narrow else 8)
    canvas.time_axis(axes.yaxis, table["elapsed_ns"].max())
    canvas.finish(axes)
    return figure
